"""Numbers in a text as exact values with their units, however they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import NamedTuple

DIGITS_MAX = 40
"""A longer number keeps its own spelling: no figure of a recording is meant with so many digits."""

_EXACT = Context(prec=DIGITS_MAX + 20)


class Quantity(NamedTuple):
    """One number as it is meant; a tuple, since comparing claims is mostly comparing these."""

    value: str
    """Exact value with its sign, in its unit without a scale: `5100000000` for 5.1bn."""
    unit: str
    """Currency code, `%`, `pp` (percentage points), `x` (times), another unit, or nothing."""
    role: str = ""
    """`from`, `to` or `by` where the text says which end or step of a change it is."""


def _words(table: Mapping[str, str]) -> dict[str, str]:
    return {word: name for name, words in table.items() for word in words.split("|")}


_SCALES = _words(
    {
        "3": "k|thousand|thousands|tsd|tausend|mille|mil|тыс|тысяч|тысячи|ألف|آلاف|χιλιάδες|千",
        "4": "万|萬|만",
        "5": "lakh|lakhs",
        "6": "m|mm|mn|mio|mln|million|millions|millionen|millón|millones|млн|миллион|миллиона|"
        "миллионов|مليون|ملايين|εκατ|εκατομμύρια|百万",
        "7": "crore|crores",
        "8": "億|亿|억",
        "9": "b|bn|billion|billions|mrd|milliarde|milliarden|milliard|milliards|md|mds|"
        "mil millones|млрд|миллиард|миллиарда|миллиардов|"
        "مليار|مليارات|δισ|δισεκατομμύρια|十亿|十億",
        "12": "tn|trn|trillion|trillions|billionen|трлн|триллион|триллиона|триллионов|تريليون|"
        "兆|조|万亿",
    }
)
_CURRENCIES = _words(
    {
        "USD": "us$|$|usd|dollar|dollars|us dollar|us dollars|u.s. dollars|доллар|доллара|долларов|"
        "دولار|δολάρια|美元|美金|ドル|달러|dólares|dólar",
        "EUR": "€|eur|euro|euros|евро|يورو|ευρώ|欧元|歐元|ユーロ|유로",
        "GBP": "£|gbp|pound|pounds|sterling|фунтов|英镑|ポンド|livres|pfund",
        "JPY": "¥|jpy|yen|円|日元|иен",
        "CNY": "cny|rmb|yuan|元|人民币|юаней",
        "RUB": "₽|rub|rubles|roubles|руб|рубль|рубля|рублей",  # noqa: RUF001
        "CHF": "chf|francs|franken",
        "INR": "₹|inr|rs|rupees",
        "KRW": "₩|krw|won|원",
        "AUD": "a$|aud",
        "CAD": "c$|cad",
        "HKD": "hk$|hkd|港元",
        "SAR": "sar|riyals|riyal|ريال",
        "USc": "cents|cent|¢",
    }
)
_UNITS = _words(
    {
        "%": "%|percent|per cent|pct|prozent|pour cent|por ciento|процент|процента|процентов|"
        "بالمئة|بالمائة|في المئة|في المائة|τοις εκατό|パーセント|퍼센트",
        "pp": "percentage points|percentage point|pp|ppt|ppts|pts|points|point|prozentpunkte|"
        "prozentpunkt|points de pourcentage|puntos porcentuales|п.п|个百分点|個百分點|ポイント",
        "bp": "bps|bp|basis points|basis point|basispunkte|points de base|puntos básicos|"
        "базисных пунктов|基点|個基點|个基点",
        "x": "x|×|times|fold|倍|-fold|veces|fois|раза|раз",
        "day": "days|day|tage|jours|días|дней|天",
        "week": "weeks|week|wochen|semaines|semanas|недель|周",
        "month": "months|month|monate|mois|meses|месяцев|个月|ヶ月|か月",
        "quarter": "quarters",
        "year": "years|year|jahre|ans|años|лет|года",
        "hour": "hours|hour|h|小时",
        "minute": "minutes|minute|min",
        "GW": "gw|gigawatts|gigawatt",
        "MW": "mw|megawatts|megawatt",
        "GWh": "gwh",
        "MWh": "mwh",
        "kWh": "kwh",
        "TWh": "twh",
        "km": "km|kilometres|kilometers",
        "mile": "miles|mile",
        "kg": "kg",
        "t": "t|tonnes|tons|tonnen|тонн|吨",
        "oz": "oz|ounces|ounce",
        "barrel": "barrels|barrel|bbl|bpd",
        "nm": "nm",
        "share": "shares|share|aktien|actions|acciones|акций|股|株",
        "unit": "units|unit|台|辆|輛",
        "store": "stores|store|shops|filialen|magasins|tiendas|магазинов|家门店|店舗",
        "employee": "employees|workers|jobs|people|mitarbeiter|emplois|empleados|сотрудников|人",
        "customer": "customers|users|subscribers|kunden|clients|clientes|клиентов",
        "vehicle": "vehicles|cars|trucks|fahrzeuge",
        "seat": "seats",
        "patient": "patients",
    }
)

_NUMBER = r"(?:\d{1,3}(?:[, ']\d{3})+(?!\d)(?:\.\d+)?|\d+(?:[.,]\d+)*|(?<!\w)\.\d+)"
_NO_LETTER = r"(?<![0-9A-Za-z\u00c0-\u024f\u0370-\u052f])"
"""Not inside a word or a code; scripts without spaces write a number next to a letter."""
_LETTER_ENDS = r"(?![A-Za-z\u00c0-\u024f\u0370-\u052f\u0621-\u064a])"
_SPACELESS = re.compile(r"[^a-zа-яёάa-ωα-ωà-ÿء-ي0-9]$")  # noqa: RUF001


def _either(words: Mapping[str, str]) -> str:
    """The words, longest first; those that end in a letter of an alphabet end there."""
    longest_first = sorted(words, key=len, reverse=True)
    return "|".join(
        re.escape(word) + ("" if _SPACELESS.search(word) else _LETTER_ENDS)
        for word in longest_first
    )


_CODES = "usd|eur|gbp|jpy|cny|rmb|chf|inr|krw|rub|aud|cad|hkd|sar|rs"
_QUANTITY = re.compile(
    r"(?=[\d.+$€£¥₹₽₩-]|[a-z]{1,3}[\s$€£¥₹\d]|minus\s|negative\s)"
    rf"(?P<sign>{_NO_LETTER}(?<![.,)%])[-+]\s?(?=[$€£¥₹\d.])|(?<!\w)(?:minus|negative)\s)?"
    rf"(?:{_NO_LETTER}(?P<before>(?:us|hk|[ac])?[$€£¥₹₽₩]|{_CODES})\s?(?P<inner>-|\()?)?"
    rf"{_NO_LETTER}(?<!\d\.)(?P<number>{_NUMBER})\)?"
    rf"(?:\s?-?(?P<scale>{_either(_SCALES)})\.?)?"
    rf"(?:[\s-]?(?:of\s)?(?P<money>{_either(_CURRENCIES)}))?"
    rf"(?:[\s-]?(?P<unit>{_either(_UNITS)}))?"
    r"(?P<suffix>[a-z]+(?![^\W_]))?",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"(?<!\w)(?P<role>from|to|by|von|auf|um|de|à|del|al|от|с|до|на)\s+(?:the\s+)?"  # noqa: RUF001
    r"(?:(?:about|around|roughly|some|approximately|nearly|almost)\s+)?$",
    re.IGNORECASE,
)
_ROLE_CHARS = 32
"""What stands before a number to tell its role is shorter."""

_ROLES = {"from": "from", "von": "from", "de": "from", "del": "from", "от": "from", "с": "from"}  # noqa: RUF001
_ROLES |= {"to": "to", "auf": "to", "à": "to", "al": "to", "до": "to"}
_ROLES |= {"by": "by", "um": "by", "на": "by"}

_SAID_TO_BE = re.compile(r"(?<!\w)(?:was|were|is|are|of|at|to)\s\($", re.IGNORECASE)
"""Before a figure in brackets that is negative, as books have it; an aside follows other words."""

_CONTINENTAL = re.compile(
    r"mio|mrd|millionen|milliard|millones|mds?$|mil |tsd|prozent", re.IGNORECASE
)


def take_quantities(text: str, put: Callable[[Quantity], str]) -> str:
    """The text with each number and what belongs to it replaced by what `put` returns for it.

    Takes normalised text in which digits are ASCII and numbers are written with digits.
    """
    if not any(map(str.isdigit, text)):
        return text
    found = list(_QUANTITY.finditer(text))
    scales = [_scale(match) for match in found]
    units = [_unit(match) for match in found]
    roles = [_role(text, match.start()) for match in found]
    for position in reversed(range(len(found) - 1)):
        gap = text[found[position].end() : found[position + 1].start()]
        if gap.strip() in ("-", "and", "to", "bis", "à"):
            # `5-7%` and `from $4 to 5 billion`: both ends are in the unit that stands once.
            units[position] = units[position] or units[position + 1]
            units[position + 1] = units[position + 1] or units[position]
            if units[position] != units[position + 1]:
                continue
            if not found[position]["scale"] and gap.strip() != "and":
                scales[position] = scales[position + 1]
            if not roles[position]:
                roles[position + 1] = ""
    pieces: list[str] = []
    end = 0
    position = 0
    while position < len(found):
        match = found[position]
        value = _value(match, scales[position])
        last = position
        while (
            last + 1 < len(found)
            and found[last].end() == found[last + 1].start()
            and scales[last + 1] < scales[last]
        ):
            # `5億1000万` is one number.
            last += 1
            value += _value(found[last], scales[last])
        pieces += [text[end : match.start()], put(_quantity(value, units[last], roles[position]))]
        end = found[last].end()
        position = last + 1
    return "".join([*pieces, text[end:]])


def _scale(match: re.Match[str]) -> int:
    return int(_SCALES[match["scale"].casefold()]) if match["scale"] else 0


def _unit(match: re.Match[str]) -> str:
    money = match["before"] or match["money"]
    if money:
        return _CURRENCIES[money.casefold()]
    if match["unit"]:
        return _UNITS[match["unit"].casefold()]
    return (match["suffix"] or "").casefold()


def _value(match: re.Match[str], scale: int) -> Decimal:
    digits = _plain_number(match["number"], is_continental=bool(_CONTINENTAL.search(match[0])))
    if len(digits) > DIGITS_MAX:
        return Decimal(digits)
    value = Decimal(digits).scaleb(scale, context=_EXACT)
    sign = (match["sign"] or "").strip().casefold()
    is_negative = (
        sign in ("-", "minus", "negative")
        or bool(match["before"] and match["inner"])
        or bool(_SAID_TO_BE.search(match.string, max(0, match.start() - 8), match.start()))
    )
    return -value if is_negative else value


def _role(text: str, start: int) -> str:
    """Which end of a change the words before a number make it."""
    found = _ROLE.search(text[max(0, start - _ROLE_CHARS) : start])
    return _ROLES[found["role"].casefold()] if found else ""


def _quantity(value: Decimal, unit: str, role: str) -> Quantity:
    if unit == "bp":
        value, unit = value.scaleb(-2, context=_EXACT), "pp"
    if unit == "USc":
        value, unit = value.scaleb(-2, context=_EXACT), "USD"
    return Quantity(value=_spelled(value), unit=unit, role=role)


def _spelled(value: Decimal) -> str:
    if not value:
        return "0"
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _plain_number(number: str, *, is_continental: bool) -> str:
    """Digits with at most one point: which mark parts thousands is read from the number itself."""
    number = re.sub(r"[ '’]", "", number)
    commas, points = number.count(","), number.count(".")
    if commas and points:
        decimal = max(number.rfind(","), number.rfind("."))
        if number.count(number[decimal]) > 1:
            return re.sub(r"[.,]", "", number)
        whole = re.sub(r"[.,]", "", number[:decimal])
        return f"{whole}.{number[decimal + 1 :]}"
    mark = "," if commas else "."
    if commas + points > 1:
        return number.replace(mark, "")
    head, _, tail = number.partition(mark)
    is_group = len(tail) == 3 and 1 <= len(head) <= 3 and head != "0"
    if is_group and (mark == "," or is_continental):
        return head + tail
    return f"{head or '0'}.{tail}" if tail else head
