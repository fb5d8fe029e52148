"""Spelled-out numbers in a text as digits."""

from __future__ import annotations

import re
from fractions import Fraction

_UP_TO_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ENGLISH = {word: value for value, word in enumerate(_UP_TO_TWENTY.split())}
_ENGLISH |= {word: 10 * value for value, word in enumerate(_TENS.split(), start=2)}
_OTHER = {
    word: value
    for value, words in {
        2: "zwei deux dos два две",
        3: "drei trois tres три",
        4: "vier quatre cuatro четыре четырех",
        5: "fünf cinq cinco пять пяти",
        6: "sechs seis шесть шести",
        7: "sieben sept siete семь семи",
        8: "acht huit ocho восемь восьми",
        9: "neun neuf nueve девять девяти",
        10: "zehn dix diez десять десяти",
        12: "zwölf douze doce двенадцать",
        15: "fünfzehn quinze quince пятнадцать",
        20: "zwanzig vingt veinte двадцать",
        30: "dreißig trente treinta тридцать",
        50: "fünfzig cinquante cincuenta пятьдесят",
    }.items()
    for word in words.split()
}

_SMALL = "|".join(sorted(_ENGLISH, key=len, reverse=True))
_PART = f"(?:{_SMALL}|hundred|thousand)"
_SPELLED = re.compile(
    rf"(?<![\w-])(?:a (?=hundred|thousand)|{_PART})(?:(?:[ -](?:and )?){_PART})*"
    rf"(?:\s+point(?:\s+(?:{_SMALL}))+)?(?!\w)(?![ -](?:quarter|half|third)(?!\w))",
    re.IGNORECASE,
)
_AFTER_ONE = re.compile(
    r"\s*-?(?:percent|per cent|%|percentage|basis|point|million|billion|trillion|dollar|euro|"
    r"in |out )",
    re.IGNORECASE,
)
_OTHER_SPELLED = re.compile(
    rf"(?<!\w)(?:{'|'.join(sorted(_OTHER, key=len, reverse=True))})(?!\w)", re.IGNORECASE
)

_MULTIPLES = {
    "double": (2, "up"),
    "twice": (2, ""),
    "triple": (3, "up"),
    "treble": (3, "up"),
    "quadruple": (4, "up"),
    "halve": (Fraction(1, 2), "down"),
}
_MULTIPLE = re.compile(
    r"(?<!\w)(?P<stem>double|twice|triple|treble|quadruple|halve|doubling|tripling|trebling|"
    r"quadrupling|halving)[ds]?(?!\w)(?! digit|-digit)",
    re.IGNORECASE,
)
_FOLD = re.compile(rf"(?<!\w)({_SMALL}|\d+)-?fold(?!\w)", re.IGNORECASE)
_FRACTIONS = (
    (re.compile(r"(?<!\w)half a (?=million|billion|trillion|percent)", re.IGNORECASE), "0.5 "),
    (re.compile(r"(?<!\w)one and a half(?!\w)", re.IGNORECASE), "1.5"),
    (re.compile(r"(?<!\w)(?:a|one)[ -]third(?= of(?!\w))", re.IGNORECASE), "33.3333 %"),
    (re.compile(r"(?<!\w)two[ -]thirds(?!\w)", re.IGNORECASE), "66.6667 %"),
    (re.compile(r"(?<!\w)(?:a|one)[ -]quarter(?= of(?!\w))", re.IGNORECASE), "25 %"),
    (re.compile(r"(?<!\w)three[ -]quarters(?= of(?!\w))", re.IGNORECASE), "75 %"),
    (re.compile(r"(?<!\w)half(?= of(?! the year|\s+(?:19|20)\d\d)(?!\w))", re.IGNORECASE), "50 %"),
    (re.compile(r"(?<!\w)(?:a )?dozen(?!\w)", re.IGNORECASE), "12"),
)

_NUMBER_WORD = re.compile(
    rf"\b(?:{_SMALL}|hundred|thousand|half|dozen|twice|"
    rf"(?:two|three|doubl|tripl|trebl|quadrupl|halv)\w+|\w+-?fold|{'|'.join(_OTHER)})\b"
    r"|[零〇一二两兩三四五六七八九十百千]",
    re.IGNORECASE,
)
"""One search for all of the below: most texts have no such word."""

_HAN = {character: value for value, character in enumerate("零一二三四五六七八九")}
_HAN |= {"〇": 0, "两": 2, "兩": 2}  # noqa: RUF001
_HAN_TENS = {"十": 10, "百": 100, "千": 1000}
_HAN_PERCENT = re.compile(r"百分之([零〇一二两兩三四五六七八九十百点點\d.]+)")
_HAN_NUMBER = re.compile(
    r"(?<![第零〇一二两兩三四五六七八九十百千])([一二两兩三四五六七八九十百千][零〇一二两兩三四五六七八九十百千]*)"
    r"(?=个百分点|個百分點|个基点|倍|成|亿|億|万|萬|美元|家店|家工厂|个月|年间|%|パーセント|ポイント|つの|社|店舗)"
)


def with_digits(text: str) -> str:
    """The text with its spelled-out numbers written in digits, those it can read."""
    if not _NUMBER_WORD.search(text):
        return text
    for pattern, digits in _FRACTIONS:
        text = pattern.sub(digits, text)
    text = _FOLD.sub(lambda found: f"{_value_of(found[1])} x", text)
    text = _MULTIPLE.sub(_multiple, text)
    text = _SPELLED.sub(_spelled, text)
    text = _OTHER_SPELLED.sub(lambda found: str(_OTHER[found[0].casefold()]), text)
    text = _HAN_PERCENT.sub(lambda found: f"{_han(found[1])}%", text)
    return _HAN_NUMBER.sub(lambda found: str(_han(found[1])), text)


def _value_of(word: str) -> str:
    return word if word.isdigit() else str(_ENGLISH[word.casefold()])


def _multiple(found: re.Match[str]) -> str:
    stem = found["stem"].casefold()
    if stem.endswith("ing"):
        stem = stem.removesuffix("ing") + "e"
    factor, way = _MULTIPLES[stem]
    is_verb = stem != found[0].casefold()
    number = f"{float(factor):g} x"
    return f"{way} {number}" if way and is_verb else number


def _spelled(found: re.Match[str]) -> str:
    """A run of number words as digits; a lone `one` mostly counts nothing."""
    words = re.split(r"[\s-]+", found[0].casefold())
    if words == ["one"] and not _AFTER_ONE.match(found.string, found.end()):
        return found[0]
    whole, _, tail = " ".join(words).partition(" point ")
    total = current = 0
    for word in whole.split():
        if word == "hundred":
            current = (current or 1) * 100
        elif word == "thousand":
            total += (current or 1) * 1000
            current = 0
        elif word in _ENGLISH:
            current += _ENGLISH[word]
    digits = str(total + current)
    return f"{digits}.{''.join(str(_ENGLISH[word]) for word in tail.split())}" if tail else digits


def _han(text: str) -> str:
    whole, _, tail = text.replace("點", "点").partition("点")
    if whole.replace(".", "").isdigit() and not any(character in _HAN for character in whole):
        return text
    total = current = 0
    for character in whole:
        if character in _HAN_TENS:
            total += (current or 1) * _HAN_TENS[character]
            current = 0
        elif character in _HAN:
            current = current * 10 + _HAN[character]
        else:
            return text
    digits = str(total + current)
    tail_digits = "".join(str(_HAN.get(character, character)) for character in tail)
    return f"{digits}.{tail_digits}" if tail else digits
