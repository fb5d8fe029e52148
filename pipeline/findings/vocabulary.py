"""Words that turn a claim round: direction, negation, modality, and what is measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

_DIRECTIONS = {
    "up": "up rise rises rising rose risen raise raises raised raising increas* grow grows growing "
    "grew grown growth gain gains gained gaining climb* "
    "jump* higher surge* surging expand* expansion "
    "improv* lift* boost* soar* hike* hiking upward* upside upgrad* rebound* recover* widen* "
    "steig* stieg* gestiegen erhöh* wuchs wachs* gewachsen hob angehoben "
    "hausse augment* progressé progresse progressent relevé "
    "relève sube suben subió subieron aument* creci* elev* "
    "вырос* увелич* повыс* рост роста растет растёт ارتفع* ارتفاع زاد* زيادة رفع* نمو "
    "αυξήθηκ* αύξησ* αυξάν* άνοδ* ανέβ*",
    "down": "down fall falls falling fell fallen cut cuts cutting decreas* declin* drop drops "
    "dropp* lower lowers lowered lowering reduc* shrink* shrank shrunk contracted contracting "
    "contraction slip slips slipp* slid sliding sink* sank plung* tumbl* worsen* "
    "deteriorat* erod* erosion compress* narrow* downward* downside downgrad* trim* slash* "
    "fiel fielen fällt fallen gefallen sank sinkt gesunken gesenkt senkt* senken kürz* gekürzt "
    "baisse* baissé* recul* diminu* rédui* réduc* baja* "
    "bajó cayó cayeron caíd* reduj* disminu* recort* "
    "сниз* упал* сократ* паден* уменьш* انخفض* انخفاض تراجع* هبط* خفض* "
    "μειώθηκ* μείωσ* μειών* πτώσ* υποχώρ*",
    "beat": "beat beats beating beaten exceed* outperform* surpass* topped outstrip* outpac* "
    "outgrow* outgrew übertr* dépass* supera* "
    "superó превыс* превзош* تجاوز* ξεπέρασ*",
    "miss": "miss misses missed missing underperform* undershot trail* "
    "lag lags lagged lagging verfehl* manqué* incumpl*",
    "above": "above über oberhalb",
    "below": "below beneath unter unterhalb",
    "faster": "accelerat* speed speeds sped speeding faster quicken* beschleunig* accélér* "
    "aceler* ускор*",
    "slower": "slow slows slowed slowing slower slowdown decelerat* verlangsam* ralenti* "
    "desaceler* замедл*",
    "tighter": "tight tighten* tighter",
    "looser": "loose loosen* looser ease eased eases easing relax*",
    "profit": "profit profits profitable gewinn* bénéfice* "
    "beneficio* прибыл* أرباح الأرباح ربح κέρδη",
    "loss": "loss losses lossmaking verlust* perte* pérdida* убыт* خسائر خسارة ζημί*",
    "strong": "strong stronger strongest strength robust solid healthy",
    "weak": "weak weaker weakest weakness weaken* soft softer soften* sluggish",
    "positive": "positive positively favorable favourable tailwind tailwinds",
    "negative": "negative negatively adverse adversely headwind headwinds unfavorable",
    "more": "more greater larger bigger",
    "less": "less fewer smaller",
    "start": "start* begin* began begun launch* resum* open opens opened opening reopen*",
    "stop": "stop* halt* paus* suspend* suspension close closes closed closing closure* end ends "
    "ended ending discontinu* cancel* withdr* terminat*",
    "confirm": "confirm* reiterat* reaffirm* affirm* maintain* approv* accept*",
    "reject": "reject* oppos* refus* dismiss*",
    "buy": "buy buys buying bought acquir* acquisition* purchas*",
    "sell": "sell sells selling sold divest* disposal*",
    "win": "win wins won winning",
    "lose": "lose loses lost losing",
    "early": "early earlier ahead",
    "late": "late later delay* postpon* behind",
    "hire": "hire hires hired hiring recruit*",
    "fire": "layoff* fires fired firing",
    "flat": "flat unchanged stable steady stabil*",
    "high": "high highs highest peak peaks peaked record",
    "low": "low lows lowest trough*",
    "most": "most maximum",
    "least": "least minimum",
    "before": "before pre until",
    "after": "after since post",
    "with": "including incl included includes",
    "except": "excluding excl except excluded excludes ex",
    "only": "only partly partially",
    "short-lived": "temporar*",
    "lasting": "permanent*",
    "bull": "bullish optimistic confident",
    "bear": "bearish pessimistic cautious",
}

_NEGATION = (
    "not no never without none neither nor cannot non nobody nothing hardly denies denied deny "
    "denying fail fails failed failing lack lacks lacked lacking unlikely unable "
    "nicht kein* ohne nie niemals weder pas jamais aucun* sans ni nunca sin ningun* ningún tampoco "
    "не нет без никогда ни لا لم لن ليس ليست بدون دون غير لیس δεν μη μην χωρίς όχι ποτέ"
)

_MODALITY = {
    "possible": "may might could can possibl* perhaps potential* kann könnt* möglich* "
    "peut pourrai* puede* podría* может могут возможно قد ربما μπορεί ίσως",
    "likely": "likely probabl* unlikely wahrscheinlich probable* вероятно",
    "certain": "will shall would going certain* definitely wird werden "
    "sera seront será serán будет будут سوف θα",
    "expected": "expect* plan plans planned planning intend* aim aims aimed target targets "
    "targeted forecast* projected projection* guide* guiding anticipat* "
    "erwart* prévoi* espera* ожида* يتوقع* αναμέν*",
    "needed": "must should need needs needed ought muss soll* doit debe* должен должн* يجب πρέπει",
    "conditional": "if unless provided wenn falls si если إذا αν",  # noqa: RUF001
    "rumoured": "reportedly allegedly rumour* rumor* purportedly supposedly",
}

_SUBJECTS = {
    "revenue": "revenue* sales turnover umsatz* erlös* recettes ingresos ventas выручк* "
    "إيرادات الإيرادات έσοδα",
    "earnings": "earnings profit profits income gewinn* bénéfice* beneficio* прибыл* "
    "أرباح الأرباح κέρδη",
    "margin": "margin* marge* margen* márgen* марж*",
    "guidance": "guidance outlook prognose* perspectiv* prévision* previsi*",
    "cost": "cost costs expense* kosten coût* coste* costo* расход*",
    "price": "price prices pricing preis* prix precio* цен*",
    "volume": "volume* volumen",
    "order": "order orders bookings",
    "backlog": "backlog*",
    "delivery": "deliver* shipment* shipped shipping",
    "inventory": "inventor* stockpile*",
    "debt": "debt borrowing* leverage",
    "cash": "cash liquidity",
    "dividend": "dividend* dividende*",
    "buyback": "buyback* repurchas*",
    "capex": "capex",
    "tax": "tax taxes",
    "demand": "demand nachfrage demande demanda спрос*",
    "supply": "supply supplies",
    "churn": "churn attrition",
    "retention": "retention",
    "headcount": "headcount employee* staff workforce",
    "user": "user users subscriber* customer* client*",
    "traffic": "traffic",
    "loan": "loan loans lending",
    "deposit": "deposit*",
    "cloud": "cloud",
    "advertising": "advertis* ads ad",
    "hardware": "hardware",
    "software": "software",
    "service": "services",
    "subscription": "subscription*",
    "gaming": "gaming",
    "automotive": "automotive",
    "energy": "energy",
    "retail": "retail",
    "wholesale": "wholesale",
    "consumer": "consumer*",
    "enterprise": "enterprise*",
    "gross": "gross",
    "operating": "operating",
    "net": "net",
    "organic": "organic*",
    "adjusted": "adjusted",
    "reported": "reported",
    "upper": "top upper",
    "lower": "bottom",
    "domestic": "domestic",
    "international": "international*",
    "import": "import*",
    "export": "export*",
    "short": "short-term near-term",
    "long": "long-term",
}

_WITHIN = {
    "up": "上升 上涨 上漲 增长 增長 增加 提高 上调 上調 增収 "
    "増加 増収 増益 上昇 引き上げ 上方修正 拡大 증가 상승",
    "down": "下降 下跌 减少 減少 降低 下调 下調 減収 減益 "
    "下落 低下 引き下げ 下方修正 縮小 감소 하락",
    "beat": "超出 超过 超過 高于 高於 上回る 上回った 上回っ",
    "miss": "低于 低於 不及 下回る 下回った 下回っ",
    "loss": "亏损 虧損 赤字 損失",
    "profit": "盈利 黒字",
    "faster": "加速",
    "slower": "放缓 放緩 減速 鈍化",
    "not": "不 没 沒 未 无 無 ない なかった ません ず 않 없",
    "possible": "可能 かもしれ 可能性",
    "certain": "将 將 だろう でしょう",
    "expected": "预计 預計 見込 予想 予定",
}

_WITHIN_SUBJECTS = {
    "revenue": "营收 營收 收入 营业额 売上高 売上",
    "earnings": "利润 利潤 净利 淨利 利益 純利益",
    "margin": "毛利率 利润率 利益率",
    "cost": "成本 费用 費用",
    "price": "价格 價格 価格",
    "demand": "需求 需要",
    "order": "订单 訂單 受注",
    "inventory": "库存 庫存 在庫",
    "guidance": "指引 業績予想 展望",
    "cloud": "云 雲 クラウド",
    "advertising": "广告 廣告 広告",
}

_SYNONYMS = {
    "vehicle": "vehicle* car cars automobile*",
    "phone": "phone* smartphone* handset*",
    "plant": "plant plants factory factories facility facilities",
    "store": "store stores shop shops outlet outlets",
    "deal": "deal deals transaction*",
    "announce": "announc* unveil* present presents presented introduc*",
    "remain": "remain* stay stays stayed keep keeps kept",
    "help": "help* benefit* support* boost* aid*",
    "hurt": "hurt* weigh* burden* dampen* pressur*",
    "suggest": "suggest* indicat* impl* signal* point points pointed mean means meant",
    "reach": "reach* hit hits total* amount* came come comes",
    "large": "big large substantial* significant* considerabl*",
    "small": "small slight* modest* minor",
    "year": "year years annual*",
    "follow": "follow* ensue*",
    "move": "move* moving shift* chang*",
    "power": "power strength",
    "quick": "quick* rapid* fast",
    "need": "need* requir*",
    "spend": "spend* spent spending invest*",
    "fund": "fund* financ*",
}

_FRAMES_WORDS = (
    "slide slides chart charts table graph graphs screen figure picture presentation presenter "
    "speaker speakers management company firm group executives executive said says saying state "
    "states told tells according report reports reported show shows showed shown display displays "
    "displayed list lists listed see seen hear heard mention mentions mentioned highlight "
    "highlights highlighted now currently also again still just very quite already there here "
    "call calls called describe describes described did does do done will would get gets got"
)
FRAMES = frozenset(_FRAMES_WORDS.split())
"""Words that tell how a thing was seen or heard, not what it is."""

_OPENERS_WORDS = (
    "a an the this that these those it its he she we they you i our their his her there here what "
    "when where while as at by for from in on of to with after before during since until under "
    "over about between both each every all any some many most more less few several other "
    "another such if although though because however also and but or so yet then now only just "
    "still even new slide slides chart charts table figure graph picture screen speaker speakers "
    "presenter management company companies business firm group board executives executive "
    "analyst analysts investors shareholders customers clients consumers suppliers competitors "
    "investment employees shares share stock bonds debt cash capital capacity production "
    "manufacturing output plant plants factory store stores product products data traffic users "
    "subscribers members audio video voice text title caption total average annual quarterly "
    "monthly weekly first second third fourth next last full half year years quarter month week "
    "today yesterday tomorrow figures numbers results someone nobody everyone nothing something "
    "one two three four five six seven eight nine ten exposure valuation multiples sentiment "
    "momentum visibility confidence competition competitive regulatory regulation legal credit "
    "rating ratings interest rates rate currency inflation market markets sector industry segment "
    "segments division unit units portfolio holding holdings position risk risks impact effect "
    "estimate estimates consensus trend trends pressure growth decline better worse good bad long "
    "short near medium yes according audience applause asked talk comments remarks commentary "
    "questions question answer sizing launch approval trial trials patients drug chip chips "
    "memory car cars vehicle vehicles battery batteries oil gas power electricity mining steel "
    "copper gold bank banks lending mortgage insurance premiums claims rent rents occupancy hotel "
    "hotels airline flights freight shipping spending investments overall meanwhile separately "
    "der die das ein eine im le la les un une el los las en au aux des du de lo"
)
OPENERS = frozenset(_OPENERS_WORDS.split())
"""Words that begin a sentence in capitals without being a name."""

_SMALL_WORDS = (
    "a an the of in on at to for by from with and or as is are was were be been being has have "
    "had that this these those it its their our his her said says stated noted showed shows shown "
    "which who than then about around roughly approximately nearly almost some into per"
)
SMALL = frozenset(_SMALL_WORDS.split())
"""Words without a meaning of their own for a comparison of claims."""


def _compiled(
    classes: Mapping[str, str],
) -> tuple[Mapping[str, str], tuple[tuple[str, str], ...]]:
    """Whole words by their class, and beginnings of words with theirs, the longest first."""
    whole: dict[str, str] = {}
    beginnings: list[tuple[str, str]] = []
    for name, words in classes.items():
        for word in words.split():
            if word.endswith("*"):
                beginnings.append((word[:-1], name))
            else:
                whole.setdefault(word, name)
    return whole, tuple(sorted(beginnings, key=lambda pair: -len(pair[0])))


_TABLES = tuple(map(_compiled, (_DIRECTIONS, {"not": _NEGATION}, _MODALITY, _SUBJECTS, _SYNONYMS)))


def _look_up(table: int, word: str) -> str | None:
    whole, beginnings = _TABLES[table]
    if word in whole:
        return whole[word]
    return next((name for start, name in beginnings if word.startswith(start)), None)


@lru_cache(maxsize=8192)
def direction(word: str) -> str | None:
    """The way a case-folded word points, such as `up` for `raised`; none for most words."""
    return _look_up(0, word)


@lru_cache(maxsize=8192)
def is_negation(word: str) -> bool:
    return _look_up(1, word) is not None or word.endswith("n't")


@lru_cache(maxsize=8192)
def modality(word: str) -> str | None:
    """How sure a case-folded word makes its claim, such as `possible` for `may`."""
    return _look_up(2, word)


@lru_cache(maxsize=8192)
def subject(word: str) -> str | None:
    """What a case-folded word says is measured, such as `revenue` for `sales`."""
    return _look_up(3, word)


@lru_cache(maxsize=8192)
def meaning(word: str) -> str:
    """One word for all that mean much the same; a case-folded word without others is its own."""
    return _look_up(3, word) or _look_up(4, word) or word


def _alternatives(classes: Mapping[str, str]) -> tuple[re.Pattern[str], Mapping[str, str]]:
    names = {word: name for name, words in classes.items() for word in words.split()}
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))), names


WITHIN, WITHIN_CLASSES = _alternatives(_WITHIN)
"""Direction, negation and modality in scripts that write words without spaces."""
WITHIN_SUBJECT, WITHIN_SUBJECTS = _alternatives(_WITHIN_SUBJECTS)
