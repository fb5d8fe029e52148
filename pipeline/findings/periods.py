"""Periods and dates in a text in one spelling each, however they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

_ORDINALS = {
    word: number
    for number, words in enumerate(
        (
            "1st|first|1|i|one|ersten|erstes|erste|1er|premier|première|primer|первый|первом|первого|"
            "الأول|πρώτο|一|一",
            "2nd|second|2|ii|two|zweiten|zweites|zweite|2e|deuxième|segundo|второй|втором|второго|"
            "الثاني|δεύτερο|二",
            "3rd|third|3|iii|three|dritten|drittes|dritte|3e|troisième|tercer|третий|третьем|"
            "третьего|الثالث|τρίτο|三",
            "4th|fourth|final|4|iv|four|vierten|viertes|vierte|4e|quatrième|cuarto|четвертый|"
            "четвертом|четвертого|четвёртом|الرابع|τέταρτο|四",
        ),
        start=1,
    )
    for word in words.split("|")
}
_ORDINAL = "|".join(map(re.escape, sorted(_ORDINALS, key=len, reverse=True)))

_MONTH_WORDS = (
    "january|jan|januar|janvier|enero|январь|января|январе|يناير|ιανουάριο",
    "february|feb|februar|février|febrero|февраль|февраля|феврале|فبراير",
    "march|mar|märz|mars|marzo|март|марта|марте|مارس",
    "april|apr|avril|abril|апрель|апреля|апреле|أبريل",
    "mai|mayo|мая|مايو|μάιο",
    "june|jun|juni|juin|junio|июнь|июня|июне|يونيو",
    "july|jul|juli|juillet|julio|июль|июля|июле|يوليو",
    "august|aug|août|agosto|август|августа|августе|أغسطس",
    "september|sept|sep|septembre|septiembre|сентябрь|сентября|сентябре|سبتمبر",
    "october|oct|oktober|octobre|octubre|октябрь|октября|октябре|أكتوبر",
    "november|nov|novembre|noviembre|ноябрь|ноября|ноябре|نوفمبر",
    "december|dec|dezember|décembre|diciembre|декабрь|декабря|декабре|ديسمبر",
)
_MONTHS = {
    word: f"{number:02}"
    for number, words in enumerate(_MONTH_WORDS, start=1)
    for word in words.split("|")
}
_CAPITAL_MONTHS = ("mar", "sep", "jun", "jan", "dec", "oct", "nov", "feb", "apr", "jul", "aug")
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))

_DAY_WORDS = (
    "monday|montag|lundi|lunes|понедельник|周一|星期一|月曜日|الاثنين",
    "tuesday|dienstag|mardi|martes|вторник|周二|星期二|火曜日|الثلاثاء",
    "wednesday|mittwoch|mercredi|miércoles|среду|周三|星期三|水曜日|الأربعاء",
    "thursday|donnerstag|jeudi|jueves|четверг|周四|星期四|木曜日|الخميس",
    "friday|freitag|vendredi|viernes|пятницу|周五|星期五|金曜日|الجمعة",
    "saturday|samstag|samedi|sábado|субботу|周六|星期六|土曜日|السبت",
    "sunday|sonntag|dimanche|domingo|воскресенье|周日|星期日|日曜日|الأحد",
)
_WEEKDAYS = {
    word: f"weekday {number}"
    for number, words in enumerate(_DAY_WORDS, start=1)
    for word in words.split("|")
}
_WEEKDAY = "|".join(sorted(_WEEKDAYS, key=len, reverse=True))

_SPANS = {
    "quarter": "quarter|quartal|trimestre|квартал|квартале|квартала|الربع|τρίμηνο|季度|四半期|분기",
    "half": "half|halbjahr|semestre|полугодии|полугодие|النصف|εξάμηνο",
    "year": "fiscal year|financial year|calendar year|year|jahr|geschäftsjahr|exercice|année|año|"
    "ejercicio|году|год|года|العام|السنة|έτος",
    "month": "month|monat|mois|mes|месяц|месяце|الشهر",
    "week": "week|woche|semaine|semana|неделе|неделю|الأسبوع",
}
_SPAN_NAMES = {word: name for name, words in _SPANS.items() for word in words.split("|")}
_SPAN = "|".join(sorted(_SPAN_NAMES, key=len, reverse=True))

_RELATIONS = {
    "this": "this|current|ongoing|diesem|dieses|diesen|laufenden|ce|cet|cette|en cours|este|esta|"
    "actual|этом|текущем|هذا|الحالي|本|今|当|這|这",
    "next": "next|coming|following|upcoming|nächsten|nächstes|kommenden|prochain|prochaine|próximo|"
    "próxima|следующем|المقبل|القادم|επόμενο|下|来|翌",
    "last": "last|previous|prior|preceding|past|letzten|"
    "letztes|vergangenen|vorigen|dernier|dernière|"
    "précédent|pasado|pasada|anterior|прошлом|предыдущем|الماضي|السابق|προηγούμενο|上|前|去",
}
_RELATION_NAMES = {word: name for name, words in _RELATIONS.items() for word in words.split("|")}
_RELATION = "|".join(
    word for word in sorted(_RELATION_NAMES, key=len, reverse=True) if len(word) > 1
)

_WORDS = {
    "today": "today|heute|aujourd'hui|hoy|сегодня|今天|今日|اليوم",
    "tomorrow": "tomorrow|morgen|demain|завтра|明天|明日|غدا",
    "yesterday": "yesterday|gestern|hier soir|ayer|вчера|昨天|昨日|أمس",
    "yoy": "year-over-year|year over year|year-on-year|year on year|yoy|y/y|from a year earlier|"
    "im jahresvergleich|sur un an|interanual|в годовом исчислении|على أساس سنوي|"
    "同比|前年同期比|前年比",
    "qoq": "quarter-over-quarter|quarter over quarter|quarter-on-quarter|quarter on quarter|qoq|"
    "q/q|sequentially|环比|環比|前期比",
    "mom": "month-over-month|month-on-month|mom",
    "year ago": "a year ago|one year ago|a year earlier|one year earlier|a year before|year-ago",
    "quarter ago": "a quarter ago|one quarter ago|a quarter earlier",
    "full year": "full-year|full year|gesamtjahr|全年|通期",
    "per year": "annually|per year|a year|per annum|annual|yearly",
    "per quarter": "quarterly|per quarter|a quarter",
    "per month": "monthly|per month|a month",
    "per week": "weekly|per week|a week",
    "per day": "daily|per day|a day",
    "this year": "今年|本年|今期|今年度",
    "next year": "明年|来年|來年|来期|来年度",
    "last year": "去年|昨年|前期|上年|昨年度",
    "this quarter": "本季度|本季|今四半期|当四半期",
    "next quarter": "下季度|下个季度|下季|来四半期|次の四半期",
    "last quarter": "上季度|上个季度|上季|前四半期",
    "this month": "本月|今月",
    "next month": "下月|下个月|来月",
    "last month": "上月|上个月|先月",
    "H1": "上半年|上半期|上期",
    "H2": "下半年|下半期|下期",
}
_WORD_NAMES = {word: name for name, words in _WORDS.items() for word in words.split("|")}
_LONGEST_FIRST = sorted(_WORD_NAMES, key=len, reverse=True)
_ASCII_WORD = "|".join(re.escape(word) for word in _LONGEST_FIRST if word.isascii())
_OTHER_WORD = "|".join(re.escape(word) for word in _LONGEST_FIRST if not word.isascii())
"""Not bounded by other characters: many of them are of scripts without spaces."""

_YEAR = r"(?:19|20)\d\d"


def _date(year: str | None, month: str, day: str | None) -> str:
    parts = [year or "", month.zfill(2), day.zfill(2) if day else ""]
    return "-".join(part for part in parts if part) if year or day else f"month {month}"


def _number(word: str) -> int:
    return _ORDINALS[word.casefold()]


def _full_year(digits: str) -> str:
    return digits if len(digits) == 4 else f"20{digits}"


def _month(word: str) -> str:
    # `May` is a month beside a figure only: elsewhere it is mostly a verb.
    return _MONTHS.get(word.casefold(), "05")


_Read = Callable[[re.Match[str]], str | None]


@dataclass(frozen=True, kw_only=True)
class _Rule:
    pattern: re.Pattern[str]
    read: _Read
    needs: tuple[str, ...]
    """Parts of which the case-folded text must have one, for the pattern to be worth trying."""


def _rule(needs: Iterable[str], pattern: str, read: _Read, flags: int = re.IGNORECASE) -> _Rule:
    return _Rule(pattern=re.compile(pattern, flags), read=read, needs=tuple(needs))


def _named_month(found: re.Match[str]) -> str | None:
    word = found[0].rstrip(".")
    is_name = word.casefold() not in _CAPITAL_MONTHS or word[:1].isupper()
    return _date(None, _month(word), None) if is_name else None


def _named_period(found: re.Match[str]) -> str | None:
    return _WORD_NAMES[found[0].casefold()]


_YEAR_STARTS = ("19", "20")
_QUARTERS = ("quarter", "quartal", "trimestre", "квартал")
_HALVES = ("half", "halbjahr", "semestre", "полугоди")

_RULES: tuple[_Rule, ...] = (
    _rule(
        _YEAR_STARTS,
        r"(?<![\d.])((?:19|20)\d\d)[-/](\d\d?)[-/](\d\d?)(?!\d)",
        lambda m: _date(m[1], m[2], m[3]),
    ),
    _rule("月", r"((?:19|20)\d\d)年(\d\d?)月(\d\d?)日", lambda m: _date(m[1], m[2], m[3])),
    _rule("月", r"((?:19|20)\d\d)年(\d\d?)月", lambda m: _date(m[1], m[2], None)),
    _rule("月", r"(?<!\d)(\d\d?)月(\d\d?)日", lambda m: _date(None, m[1], m[2])),
    _rule("月", r"(?<!\d)(\d\d?)月", lambda m: _date(None, m[1].zfill(2), None)),
    _rule(
        (*_MONTHS, "may"),
        rf"(?<!\w)({_MONTH}|may)\.? (\d\d?)(?:st|nd|rd|th)?(?![\w%]|[.,]\d)"
        rf"(?:,? ({_YEAR})(?!\w))?",
        lambda m: _date(m[3], _month(m[1]), m[2]),
    ),
    _rule(
        (*_MONTHS, "may"),
        rf"(?<![\w.,$€£])(\d\d?)(?:st|nd|rd|th|\.)? (?:of |de )?({_MONTH}|may)(?!\w)\.?"
        rf"(?:,? (?:de )?({_YEAR})(?!\w))?",
        lambda m: _date(m[3], _month(m[2]), m[1]),
    ),
    _rule(
        (*_MONTHS, "may"),
        rf"(?<!\w)({_MONTH}|may)\.? ({_YEAR})(?!\w)",
        lambda m: _date(m[2], _month(m[1]), None),
    ),
    _rule(_MONTHS, rf"(?<!\w)(?:{_MONTH})(?!\w)", _named_month),
    _rule(("may",), r"(?<=\w )May(?!\w)", lambda m: _date(None, "05", None), 0),
    _rule(
        ("q", "h"),
        r"(?<!\w)(\d)([QH]) ?'?(\d\d(?:\d\d)?)(?!\w)",
        lambda m: f"{m[2].upper()}{m[1]}+{_full_year(m[3])}",
    ),
    _rule(("q", "t"), r"(?<!\w)[QT]([1-4])(?![^\W_])", lambda m: f"Q{m[1]}"),
    _rule(("q",), r"(?<!\w)([1-4])Q(?!\w)", lambda m: f"Q{m[1]}"),
    _rule(("h",), r"(?<!\w)(?:H([12])|([12])H)(?![^\W_])", lambda m: f"H{m[1] or m[2]}"),
    _rule(
        _QUARTERS,
        rf"(?<!\w)({_ORDINAL})[. -]+(?:fiscal |calendar )?"
        r"(?:quarter|quartals?|trimestre|квартал\w?)(?!\w)",
        lambda m: f"Q{_number(m[1])}",
    ),
    _rule(
        _HALVES,
        rf"(?<!\w)({_ORDINAL})[. -]+(?:fiscal )?(?:half|halbjahr|semestre|полугоди\w)(?!\w)"
        r"(?: of (?:the|this) year)?",
        lambda m: f"H{_number(m[1])}" if _number(m[1]) < 3 else None,
    ),
    _rule(
        ("الربع", "τρίμηνο"),
        rf"(?<!\w)(?:الربع ({_ORDINAL})|({_ORDINAL}) τρίμηνο)(?!\w)",
        lambda m: f"Q{_number(m[1] or m[2])}",
    ),
    _rule(("季度", "四半期"), r"第?([1-4一二三四])(?:季度|四半期)", lambda m: f"Q{_number(m[1])}"),
    _rule(
        ("fy", "fiscal", "financial", "geschäftsjahr", "exercice"),
        r"(?<!\w)(?:FY|fiscal year|financial year|fiscal|geschäftsjahr|exercice)"
        r" ?'?(\d\d(?:\d\d)?)(?![\w%]|[.,]\d)",
        lambda m: f"FY{_full_year(m[1])}",
    ),
    _rule(_WORD_NAMES, rf"(?<!\w)(?:{_ASCII_WORD})(?!\w)", lambda m: _WORD_NAMES[m[0].casefold()]),
    _rule(
        (word for word in _WORD_NAMES if not word.isascii()),
        _OTHER_WORD,
        lambda m: _WORD_NAMES[m[0].casefold()],
    ),
    _rule(
        _SPAN_NAMES,
        rf"(?<!\w)({_RELATION}) (?:fiscal |full |calendar )?({_SPAN})(?!\w)",
        lambda m: f"{_RELATION_NAMES[m[1].casefold()]} {_SPAN_NAMES[m[2].casefold()]}",
    ),
    _rule(
        _SPAN_NAMES,
        rf"(?<!\w)({_SPAN}) ({_RELATION})(?!\w)",
        lambda m: f"{_RELATION_NAMES[m[2].casefold()]} {_SPAN_NAMES[m[1].casefold()]}",
    ),
    _rule(_WEEKDAYS, rf"(?<!\w)(?:{_WEEKDAY})(?!\w)", lambda m: _WEEKDAYS[m[0].casefold()]),
    _rule("年", r"(?<!\d)((?:19|20)\d\d)(?:年度|财年|会计年度)", lambda m: f"FY{m[1]}"),
    _rule("年", r"(?<!\d)((?:19|20)\d\d)年", lambda m: m[1]),
    _rule(
        _YEAR_STARTS,
        rf"(?<![\w.,$€£¥₹+-])({_YEAR})(?![\w%]|[.,]\d| ?(?:million|billion|thousand|bn|percent|"
        r"basis|units|stores|employees|people|shares|jobs|customers|cars|dollars|euros))",
        lambda m: m[1],
    ),
    _rule("'", r"(?<![\w$])'(\d\d)(?!\w)", lambda m: _full_year(m[1])),
    _rule(":", r"(?<!\d)(\d\d?):(\d\d)(?!\d)", lambda m: f"{m[1]}:{m[2]}"),
)


_NEEDS = frozenset(rule.needs for rule in _RULES)


def take_periods(text: str, put: Callable[[str], str]) -> str:
    """The text with each period and date replaced by what `put` returns for its one spelling.

    Takes normalised text in which digits are ASCII. Of what stands for two, such as `3Q25`, each is
    put.
    """

    def replaced(read: _Read, found: re.Match[str]) -> str:
        period = read(found)
        return found[0] if period is None else f" {' '.join(map(put, period.split('+')))} "

    folded = text.casefold()
    # Rules of one kind need the same words, which are sought once.
    is_worth = {needs: any(map(folded.__contains__, needs)) for needs in _NEEDS}
    for rule in _RULES:
        if is_worth[rule.needs]:
            text = rule.pattern.sub(partial(replaced, rule.read), text)
    return text
