"""Orders to trade in generated text: told to the reader, not told about somebody."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.findings.holdings import name_words, without_legal_suffix
from pipeline.records import Holding

_NAME = "\ue000"
"""Stands for a supplied name or ticker while a sentence is read; no generated text has it."""

_END = r"(?=\s*(?:[.!?;…\"”’)\]*_]|[,:]?\s*$|\s[-–—]\s))"
_WHEN = (
    r"(?=\s+(?:right\s+)?(?:now|today|tomorrow|immediately|at\s+once|asap|here|before|ahead|after|at|into"
    r"|while|until|till|through|if|unless|aggressively|quickly|for\s+now|on\s+(?:any|the|weakness|strength|dips?"
    r"|pullbacks?|open|close)|and\s+(?:hold|wait|sell|buy|rotate|switch))\b)"
)
_DONE = f"(?:{_END}|{_WHEN})"
_PAPER = (
    r"(?:stocks?|shares?(?!\s+(?:outstanding|counts?|capital|price))|equit(?:y|ies)|dips?|rall(?:y|ies)"
    r"|pullbacks?|positions?|holdings?(?!\s+compan)|stakes?|bonds|calls?(?!\s+cent)|puts?|options|rumou?r"
    r"|news|names?|futures|longs?|shorts?|bounce|weakness|strength|exposure|portfolio|rest|etfs?)"
)
_WHOSE = (
    r"(?:(?:the|this|these|those|that|your|our|their|any|all|some|half|part|most|more|additional|remaining|entire"
    r"|whole|a|an|of|few|out|long|short|at\s+least|\d[\d.,]*\s?%?)\s+){1,5}"
)
_WHAT = (
    f"(?:{_DONE}"
    rf"|\s+(?:{_WHOSE})?{_NAME}(?:['’]s)?(?:\s+(?:shares|stock|bonds|calls|puts|options))?{_DONE}"
    rf"|\s+(?:{_WHOSE})?{_NAME}\s+(?:shares|stock)\b"
    rf"|\s+(?:{_WHOSE})?{_PAPER}\b(?!-)(?!\s+(?:back|tickets?|certificates?))"
    rf"|\s+(?:it|them|all|everything|half|more|some|this|one){_DONE}"
    r"|\s+(?:now|today|immediately|at\s+once|asap|aggressively|here)\b(?!\s*,?\s*(?:and\s+)?pay)(?!-)"
    r"|\s+(?:before|ahead\s+of)\s+(?:the\s+)?(?:earnings|results|print|report|open|close|call|it|market|news)\b"
    r"|\s+on\s+(?:any\s+|the\s+)?(?:weakness|strength|dips?|pullbacks?|open|close|rumou?r|news)\b"
    r"|\s+into\s+(?:the\s+|any\s+|this\s+)?(?:weakness|strength|rally|print|close|bounce|spike|results)\b"
    r"|\s+at\s+(?:the\s+)?(?:market|open|close|current\s+(?:prices?|levels?))\b"
    r"|\s+(?:below|above|under|around|near)\s+[$€£]?\d"
    r"|\s+to\s+(?:open|close)\b)"
)
# A company sells and reduces things too: these verbs count with what a reader holds behind them.
_STRONG = (
    r"(?:(?:strong\s+)?buy|sell|purchase|accumulate|short(?:\s+sell)?)"
    r"(?!\s*-)(?!\s+(?:back|side|ratings?|recommendations?|call\s+on|interest|sellers?|term|list|orders?"
    r"|signals?|reports?|now\W+(?:and\s+)?pay)\b)"
)
_STRONG_ING = (
    r"(?:buying|selling|purchasing|accumulating|shorting|short\s+selling)"
    r"(?!\s*-)(?!\s+(?:back|pressure|costs?|prices?)\b)"
)
_HOLD = (
    rf"hold(?!\s*-)(?!\s+(?:ratings?|recommendations?)\b)(?:{_END}|\s+(?:on|tight){_END}"
    rf"|\s+(?:for\s+now|through\s+(?:earnings|results|the\s+(?:print|report|volatility)))\b"
    rf"|\s+(?:it|them|{_NAME}){_DONE}"
    rf"|\s+(?:{_WHOSE})?(?:{_NAME}\s+)?"
    r"(?:stock|shares|positions?|stakes?|bonds|holdings|longs?|shorts?)\b"
    r"|\s+off\s+(?:on\s+)?(?:buying|selling|trading|adding))"
)
_SIZE_VERBS = (
    r"(?:reduce|trim|cut|increase|raise|lower|grow|add(?:\s+to)?|build(?:\s+up)?|exit|close(?:\s+out)?|unwind"
    r"|liquidate|double|halve|scale(?:\s+(?:in(?:to)?|out(?:\s+of)?|back|up|down))?|rebalance|dump|unload"
    r"|offload|lighten(?:\s+up\s+on)?|boost|maintain|keep|enter|initiate|start|take|sell\s+down|get\s+out\s+of)"
)
_SIZE_VERBS_ING = (
    r"(?:reducing|trimming|cutting|increasing|raising|lowering|adding(?:\s+to)?|building|exiting"
    r"|closing(?:\s+out)?|unwinding|liquidating|doubling|halving|rebalancing|dumping|unloading|lightening"
    r"|boosting|maintaining|keeping|entering|initiating|starting|taking)"
)
_POSITION = (
    rf"\s+(?:{_WHOSE})?(?:(?:{_NAME}(?:['’]s)?|net|gross|new|small|large|full|existing|current)\s+){{0,3}}"
    rf"(?:positions?|exposures?(?!\s+to\s+(?!(?:the\s+)?(?:{_NAME}|stock|shares|name|position)))"
    rf"|holdings?|stakes?|weights?(?!\s+(?:of(?!\s+{_NAME})|loss))|weightings?|allocations?|longs|shorts"
    r"|(?:long|short)\s+(?:positions?|bets?))\b"
)
_NAMED_VERBS = (
    r"(?:trim|exit|dump|unload|accumulate|reduce|avoid|liquidate|overweight|underweight|own|add(?:\s+to)?|cut"
    r"|top\s+up|load\s+up\s+on|double\s+down\s+on|get\s+(?:out\s+of|into)|rotate\s+(?:out\s+of|into)"
    r"|switch\s+(?:out\s+of|into|from)|bail\s+on|invest\s+in|divest|hedge)"
)
_NAMED_VERBS_ING = (
    r"(?:trimming|exiting|dumping|unloading|accumulating|reducing|avoiding|liquidating|adding(?:\s+to)?|owning"
    r"|loading\s+up\s+on|doubling\s+down\s+on|rotating\s+(?:out\s+of|into)|investing\s+in|hedging)"
)
_NAMED = (
    rf"\s+(?:the\s+|your\s+|our\s+|some\s+|more\s+)?{_NAME}"
    rf"(?:\s+(?:shares?|stock|exposure|position|holdings?)\b|(?:\s+(?:by|to)\s+\d|{_DONE}))"
    r"|\s+(?:to\s+)?(?:the|this|these|your|our|any|all)\s+(?:stocks?|shares?(?!\s+(?:outstanding|count|capital))"
    r"|names?(?=\s*[.!?;]|\s*$))\b"
)
_FIXED = (
    r"(?:(?:go|stay|remain|get)\s+(?:net\s+)?(?:long|short)(?![-\s]*(?:term|of|on))\b"
    rf"|stay\s+(?:invested|out\s+of\s+(?:the\s+stock|{_NAME}|this\s+stock))"
    r"|(?:take|lock\s+in|bank)\s+(?:some\s+|your\s+|the\s+|partial\s+)?(?:profits?|gains)\b"
    rf"|book\s+(?:some\s+|your\s+|the\s+|partial\s+)?(?:profits|gains){_DONE}"
    r"|(?:set|use|place)\s+(?:a\s+|your\s+|tight\s+)*stop[-\s]?loss(?:es)?\b"
    r"|(?:place|enter|submit|put\s+in)\s+(?:a\s+|an\s+|your\s+)?(?:buy|sell|limit|market|stop)\s+orders?\b"
    r"|open\s+an?\s+(?:\w+\s+)?(?:long|short)\b(?:\s+position)?"
    r"|cover\s+(?:the\s+|your\s+|all\s+|any\s+)?(?:shorts?|short\s+positions?)\b"
    rf"|close(?:\s+out)?\s+(?:the|your|our|all|any)\s+(?:shorts?|longs?){_DONE}"
    rf"|(?:switch|rotate|move)\s+(?:out\s+of|from)\s+{_NAME}\s+(?:in)?to\b"
    rf"|hedge\s+(?:the|your|our|this)\s+(?:{_NAME}\s+)?(?:position|exposure|holding|stake)"
    rf"|(?:load\s+up|double\s+down|back\s+up\s+the\s+truck){_DONE}"
    rf"|get\s+out{_DONE}"
    r"|(?:rebalance|rotate|reallocate)\s+(?:the\s+|your\s+|our\s+)?portfolio\b"
    r"|(?:kaufen|verkaufen)\s+sie\b|achetez\b|vendez\b)"
)
_VERB = (
    rf"(?:{_STRONG}{_WHAT}|{_HOLD}|{_SIZE_VERBS}{_POSITION}|{_NAMED_VERBS}(?:{_NAMED})|{_FIXED})"
)
_VERB_ING = (
    rf"(?:{_STRONG_ING}{_WHAT}|{_SIZE_VERBS_ING}{_POSITION}|{_NAMED_VERBS_ING}(?:{_NAMED})"
    rf"|holding(?:{_END}|\s+(?:{_WHOSE}|{_NAME}\s+)?(?:{_NAME}{_DONE}|stock|shares|positions?))"
    r"|taking\s+(?:some\s+)?(?:profits?|gains)|going\s+(?:long|short)\b)"
)

_IMPERATIVE = re.compile(
    # Where a clause begins …
    r"(?:^|[.!?;:…\n\"“‘(\[][\"'”’)\]*_]*\s*|\s(?:[-–—]+|->|→|=>)\s*|,\s+(?=(?:so|then|therefore|hence|please)\b))"  # noqa: RUF001
    # … what may come before its verb …
    r"(?:[-•*_>\s]|\d{1,2}[.)]\s){0,8}"
    r"(?:(?:please|just|so|then|now|therefore|thus|hence|immediately|quickly|simply|always|also|instead"
    r"|today|action|if\s+(?:confirmed|so|not|true)|for\s+now),?\s+){0,3}"
    r"(?:(?:do\s+not|don['’]?t|never|let['’]?s|consider|remember\s+to|be\s+ready\s+to|prepare\s+to"
    r"|make\s+sure\s+to|no\s+need\s+to|try\s+to|start|stop|keep|avoid)\s+){0,2}"
    # … and the verb itself.
    rf"(?P<order>{_VERB}|(?<=consider\s){_VERB_ING}|(?<=start\s){_VERB_ING}|(?<=stop\s){_VERB_ING}"
    rf"|(?<=keep\s){_VERB_ING}|(?<=avoid\s){_VERB_ING})",
    re.IGNORECASE,
)
_READERS = (
    r"(?:you|investors?|clients?|readers?|viewers?|shareholders|holders|traders?|we|i|one|everyone|pms?"
    r"|(?:portfolio\s+)?managers?|analysts?|the\s+(?:portfolio|fund|desk|team|analyst|investor|reader|client))"
)
_ADVERB = r"(?:now|also|therefore|not|probably|definitely|immediately|at\s+least|still|really)"
_ADVERBS = rf"(?:{_ADVERB}\s+){{0,2}}"
_ADVICE = re.compile(
    rf"\b{_READERS}\s+(?:should|must|ought\s+to|needs?\s+to|has\s+to|have\s+to|had\s+better|shall"
    rf"|(?:may|might|could|would)\s+(?:want\s+to|do\s+well\s+to|be\s+(?:wise|smart)\s+to)|are\s+advised\s+to)"
    rf"\s+{_ADVERBS}(?:{_VERB}|consider\s+{_VERB_ING}|be\s+{_VERB_ING}|avoid\s+{_VERB_ING})"
    rf"|\b{_READERS}\s+(?:should|may\s+want\s+to|might\s+want\s+to|could|may|might|would)\s+consider\s+{_VERB_ING}"
    rf"|\bi(?:['’]d|\s+would)\s+{_ADVERBS}(?:{_VERB}|be\s+{_VERB_ING})"
    rf"|\b(?:i|we)\s+(?:would\s+|strongly\s+|therefore\s+)*(?:recommend|advise|suggest|urge)\s+"
    rf"(?:(?:that\s+)?(?:you|investors|clients|holders)\s+)?(?:to\s+)?{_ADVERBS}(?:{_VERB}|{_VERB_ING})"
    rf"|\b(?:recommended|advisable|best|wise|prudent|better|safer|smart|sensible|time|moment|opportunity|chance"
    rf"|level|point|reason|signal|advised)\s+(?:(?:action|move|thing|course|trade)\s+is\s+|now\s+)?to\s+"
    rf"{_ADVERBS}{_VERB}"
    rf"|\b(?:recommendation|advice|suggestion|trade\s+idea|call\s+to\s+action|recommended\s+action)"
    r"\s*(?::|=|\s(?:is|[-–—])\s)\s*(?:to\s+|a\s+)?(?:strong\s+)?(?:buy|sell|short|hold|reduce|accumulate|add|trim"
    r"|exit)\b"
    rf"|\b(?:is|are|remains?|looks\s+like|becomes?|stays?)\s+(?:still\s+|now\s+|clearly\s+)?an?\s+"
    r"(?:(?:strong|clear|screaming|good|great|obvious)\s+)?(?:buy|sell|short|hold)\b(?!\s*-)(?!\s+\w)"
    rf"|(?<!\w)(?:{_NAME}(?:\s+(?:shares|stock))?|(?:the\s+|this\s+|your\s+)(?:positions?|stock|stake|exposure|holdings?)"
    r"|shares|positions?)\s+(?:should|must|ought\s+to|needs?\s+to)\s+(?:now\s+|also\s+|probably\s+)?be\s+"
    r"(?:sold|bought|reduced|trimmed|increased|exited|closed|shorted|held|cut|accumulated|added|avoided|hedged"
    r"|liquidated|dumped)\b(?!\s+(?:back|by\s+the\s+company))"
    r"|\b(?:is|presents?|offers?|creates?|represents?|provides?)\s+an?\s+(?:\w+\s+)?(?:buying|selling|shorting)\s+"
    r"opportunity",
    re.IGNORECASE,
)
# Whoever it is that these words speak of gave the advice; the text tells of it.
_REPORTED = re.compile(
    r"\b(?:said|says?|told|tells|argue[sd]?|claim(?:s|ed)|believes?|believed|thinks?|thought|according\s+to"
    r"|recommend(?:s|ed)|advis(?:es|ed)|urg(?:es|ed)|reiterat\w+|rat(?:ed|es|ing|ings)|upgrad\w+|downgrad\w+"
    r"|analysts?\s+(?:at|from|had|have)|consensus|broker\w*|asked|asks|whether|wrote|writes|noted|calls|called"
    r"|suggest(?:s|ed))\b",
    re.IGNORECASE,
)
_RATING_BEFORE = re.compile(
    r"\b(?:ratings?|rated|consensus|stance|opinions?|votes?|price\s+targets?|analysts?|brokers?|street)\W*$",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?;…。！？])\s+|\n")  # noqa: RUF001
_SPACES = re.compile(r"\s{2,}")
_TOKEN = re.compile(r"[^\W_]+")

_Words = tuple[str, ...]


class OrderFinder:
    """Counts orders to trade. They stay in the text; a bottom line leaves them out."""

    def __init__(self, holdings: Sequence[Holding]) -> None:
        self._names: dict[str, set[_Words]] = {}
        self._tickers: set[str] = set()
        for holding in holdings:
            if holding.ticker:
                self._tickers.add(holding.ticker.upper())
            for name in (holding.name, *holding.aliases):
                for words in (name_words(name), without_legal_suffix(name_words(name))):
                    if words:
                        self._names.setdefault(words[0], set()).add(words)

    def count(self, text: str) -> int:
        """How many orders a value gives."""
        named = self._with_names(_SPACES.sub(_space, text.replace(_NAME, "")))
        orders = sum(
            1
            for found in _IMPERATIVE.finditer(named)
            if not _RATING_BEFORE.search(named, max(found.start() - 40, 0), found.start("order"))
        )
        for sentence in _SENTENCE_END.split(named):
            found = _ADVICE.search(sentence)
            if found is not None and not _REPORTED.search(sentence, 0, found.start()):
                orders += 1
        return orders

    def _with_names(self, text: str) -> str:
        """The text with one sign for every supplied name, longest first, and every ticker."""
        tokens = list(_TOKEN.finditer(text))
        words = [token[0].casefold() for token in tokens]
        parts: list[str] = []
        position = kept = 0
        while position < len(tokens):
            length = max(
                (
                    len(name)
                    for name in self._names.get(words[position], ())
                    if tuple(words[position : position + len(name)]) == name
                ),
                default=int(tokens[position][0] in self._tickers),
            )
            if length:
                parts += [text[kept : tokens[position].start()], _NAME]
                kept = tokens[position + length - 1].end()
            position += length or 1
        return "".join([*parts, text[kept:]])


def _space(found: re.Match[str]) -> str:
    """One space or line end for many, so that no pattern has a choice between them."""
    return "\n" if "\n" in found[0] else " "
