"""Written turns with the findings that a reader of the rules finds in them.

Decided by reading the rules, not by running the code. `F` is a finding: its holdings and whether
its last field ends a sentence; `E` is evidence with its text.
"""

from __future__ import annotations

from dataclasses import dataclass

FIVE = (
    "Holdings: Acme Corp\nEvidence: Revenue was 5.1bn.\nImplication: Margins may rise.\n"
    "Uncertainty: One quarter only.\nVerify: Read the filing."
)
OTHER = FIVE.replace("Acme Corp", "TSLA").replace("5.1bn", "9.9bn")


@dataclass(frozen=True)
class F:
    ids: tuple[str, ...]
    is_closed: bool = True
    unmatched: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()


@dataclass(frozen=True)
class E:
    text: str


@dataclass(frozen=True)
class Turn:
    name: str
    text: str
    ended: tuple[F | E, ...]
    """What is there once the turn has ended by itself."""
    cut: tuple[F | E, ...]
    """What is there where it was cut behind its last character."""


ACM, TSL = F(("ACM",)), F(("TSL",))
OPEN = F(("ACM",), is_closed=False)


def without(label: str, text: str = FIVE) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith(label))


def same(name: str, text: str, *told: F | E) -> Turn:
    return Turn(name, text, told, told)


TURNS = [
    same("closed by its line end", FIVE + "\n", ACM),
    Turn("no line end behind it", FIVE, (ACM,), (E(FIVE),)),
    Turn("no punctuation, line end", FIVE[:-1] + "\n", (OPEN,), (E(FIVE[:-1]),)),
    Turn("no punctuation at all", FIVE[:-1], (OPEN,), (E(FIVE[:-1]),)),
    same("a comma is no sentence end", FIVE[:-1] + ",\nso.\n", ACM),
    same("question mark", FIVE[:-1] + "?\n", ACM),
    same("punctuation in quotes", FIVE[:-1] + '."\n', ACM),
    same("ideographic stop", FIVE[:-1] + "。\n", ACM),
    same("carriage returns", FIVE.replace("\n", "\r\n") + "\r\n", ACM),
    same("line separators", FIVE.replace("\n", "\u2028") + "\u2029", ACM),
    same("invisible characters", "\u200b\u202e".join(FIVE) + "\n", ACM),
    same("a label is split by a zero width space", FIVE.replace("Ver", "V\u200ber") + "\n", ACM),
    same("capitals", FIVE.replace("Evidence", "EVIDENCE").replace("Verify", "VERIFY") + "\n", ACM),
    same("lower case", FIVE.replace("Holdings", "holding").replace("Ver", "ver") + "\n", ACM),
    same(
        "other spellings",
        FIVE.replace("Verify", "Verification")
        .replace("tion:", "tions:", 1)
        .replace("Verifications", "Verification")
        + "\n",
        ACM,
    ),
    same("full-width colons", FIVE.replace(": ", "：") + "\n", ACM),  # noqa: RUF001
    same("list markers", "- " + FIVE.replace("\n", "\n- ") + "\n", ACM),
    same("numbers", "1. " + FIVE.replace("\n", "\n2. ") + "\n", ACM),
    same(
        "bold labels",
        "\n".join(f"**{line.replace(':', ':**')}" for line in FIVE.split("\n")) + "\n",
        ACM,
    ),
    same("bold lines", "\n".join(f"**{line}**" for line in FIVE.split("\n")) + "\n", ACM),
    same("reversed order", "\n".join(reversed(FIVE.split("\n"))) + ".\n", ACM),
    Turn(
        "reversed, the last field has no punctuation",
        "\n".join(reversed(FIVE.split("\n"))) + "\n",
        (OPEN,),
        (E("\n".join(reversed(FIVE.split("\n")))),),
    ),
    same("heard", FIVE.replace("Evidence", "Audio evidence") + "\n", ACM),
    same("seen and heard", FIVE.replace("Impl", "Audio evidence: Applause.\nImpl") + "\n", ACM),
    same("a value over two lines", FIVE.replace("5.1bn.", "5.1bn\nin the quarter.") + "\n", ACM),
    same(
        "a value on the line after its label", FIVE.replace("Evidence: ", "Evidence:\n") + "\n", ACM
    ),
    same("a label inside a value", FIVE.replace("5.1bn.", "shown: Evidence: 5.1bn.") + "\n", ACM),
    same("the last field goes on and is closed again", FIVE + "\nAsk the company.\n", ACM),
    Turn("the last field goes on and stays open", FIVE + "\nAsk the", (OPEN,), (ACM, E("Ask the"))),
    Turn(
        "the last field goes on without punctuation, blank line",
        FIVE + "\nAsk them\n\n",
        (OPEN,),
        (ACM, E("Ask them")),
    ),
    same("two blocks parted by a blank line", FIVE + "\n\n" + OTHER + "\n", ACM, TSL),
    same("two blocks parted by a repeated label", FIVE + "\n" + OTHER + "\n", ACM, TSL),
    Turn(
        "the second block is unfinished",
        FIVE + "\n\n" + without("Verify", OTHER),
        (ACM, E(without("Verify", OTHER))),
        (ACM, E(without("Verify", OTHER))),
    ),
    Turn(
        "the first block lacks punctuation",
        FIVE[:-1] + "\n\n" + OTHER + "\n",
        (OPEN, TSL),
        (E(FIVE[:-1]), TSL),
    ),
    same("no holdings", without("Holdings") + "\n", E(without("Holdings"))),
    same("no evidence", without("Evidence") + "\n", E(without("Evidence"))),
    same("no implication", without("Implication") + "\n", E(without("Implication"))),
    same("no uncertainty", without("Uncertainty") + "\n", E(without("Uncertainty"))),
    same("no verification", without("Verify") + "\n", E(without("Verify"))),
    same(
        "an empty field",
        FIVE.replace("One quarter only.", "") + "\n",
        E(FIVE.replace("One quarter only.", "").replace("ty: ", "ty:")),
    ),
    same(
        "a field of marks alone",
        FIVE.replace("One quarter only.", "**") + "\n",
        E(FIVE.replace("One quarter only.", "**")),
    ),
    same(
        "a blank line inside",
        FIVE.replace("Unc", "\nUnc") + "\n",
        E("\n".join(FIVE.split("\n")[:3])),
        E("\n".join(FIVE.split("\n")[3:])),
    ),
    same(
        "a repeated label inside",
        FIVE.replace("Unc", "Implication: Or not.\nUnc") + "\n",
        E("\n".join(FIVE.split("\n")[:3])),
        E("Implication: Or not.\n" + "\n".join(FIVE.split("\n")[3:])),
    ),
    same(
        "Verify and Verification are one label",
        FIVE + "\nVerification: Ask.\n",
        ACM,
        E("Verification: Ask."),
    ),
    same(
        "an unknown holding",
        FIVE.replace("Acme Corp", "Acme Hospitality") + "\n",
        E(FIVE.replace("Acme Corp", "Acme Hospitality")),
    ),
    same(
        "one known, one unknown",
        FIVE.replace("Acme Corp", "Nvidia, Acme") + "\n",
        F(("ACM",), unmatched=("Nvidia",)),
    ),
    same(
        "another exchange",
        FIVE.replace("Acme Corp", "LSE:ACM") + "\n",
        E(FIVE.replace("Acme Corp", "LSE:ACM")),
    ),
    same(
        "known and another exchange",
        FIVE.replace("Acme Corp", "Tesla, Inc. and LSE:ACM") + "\n",
        F(("TSL",), ambiguous=("LSE:ACM",)),
    ),
    same(
        "several holdings",
        FIVE.replace("Acme Corp", "Tesla, Inc., ACM and cash") + "\n",
        F(("TSL", "ACM", "CASH")),
    ),
    same(
        "a ticker that is a word",
        FIVE.replace("Acme Corp", "All") + "\n",
        E(FIVE.replace("Acme Corp", "All")),
    ),
    same(
        "prose",
        "The chart shows growth.\n\nNothing more.",
        E("The chart shows growth.\n\nNothing more."),
    ),
    same("prose before a block", "Let me see.\n" + FIVE + "\n", E("Let me see."), ACM),
    same("prose after a block", FIVE + "\n\nThat is all.\n", ACM, E("That is all.")),
    same("prose between blocks", FIVE + "\n\nNext.\n\n" + OTHER + "\n", ACM, E("Next."), TSL),
    same(
        "a label without a colon",
        FIVE.replace("Evidence:", "Evidence") + "\n",
        E(FIVE.replace("Evidence:", "Evidence")),
    ),
    Turn(
        "marks alone close no field",
        FIVE + "\nAudio evidence: .\n",
        (OPEN,),
        (ACM, E("Audio evidence: .")),
    ),
    same("nothing", ""),
    same("blank lines", "\n \n\u200b\n"),
    same("another script", FIVE.replace("Revenue was 5.1bn.", "売上高は51億ドル。") + "\n", ACM),
]
