"""What the rehearsal engine notices and how it says so."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.engine.rehearsal import RehearsalEngine
from pipeline.records import Decision, Options, Reply, SessionContext, Unit
from tests import units


def replies(fed: Sequence[Unit], context: SessionContext | None = None) -> list[Reply]:
    session = RehearsalEngine().open(context or units.context())
    answered = [session.step(unit, epoch=1, sequence=n) for n, unit in enumerate(fed)]
    answered += session.drain(epoch=1)
    session.close()
    return answered


def spoken(answered: Sequence[Reply]) -> str:
    return "".join(reply.text for reply in answered)


def test_a_steady_signal_is_listened_to() -> None:
    assert spoken(replies([units.unit(n) for n in range(30)])) == ""


def test_a_changed_picture_is_a_finding_about_the_signal_only() -> None:
    fed = [units.unit(n, frame=units.picture(100 if n < 5 else 160)) for n in range(12)]
    answered = replies(fed)
    text = spoken(answered)
    # 160 - 100; JPEG keeps a flat grey to within one level.
    assert "Evidence: Rehearsal measured that the picture changed by 60.0 of 255" in text
    assert text.startswith("Holdings: Alpha Corp\n")
    assert "Implication: not assessed.\n" in text
    assert "understands nothing" in text
    assert next(r.sequence for r in answered if r.decision is Decision.SPEAK) == 5


def test_a_sound_after_silence_is_audio_evidence() -> None:
    fed = [
        units.unit(n, frame=None, pcm=units.SILENCE if n < 4 else units.tone(0.5))
        for n in range(10)
    ]
    # A sine at half of full scale has an RMS of 0.5 / sqrt 2: -9.03 dB.
    assert (
        "Audio evidence: Rehearsal measured that sound began after 4 seconds of silence, "
        "at a sound level of -9.03 dBFS." in spoken(replies(fed))
    )


def test_ten_silent_seconds_are_remarked_once_and_name_no_holding() -> None:
    text = spoken(replies([units.unit(n, frame=None, pcm=units.SILENCE) for n in range(40)]))
    assert text == "Rehearsal measured 10 seconds without sound."


def test_a_unit_has_at_most_the_cap_less_two_control_tokens() -> None:
    fed = [units.unit(n, frame=units.picture(100 if n < 2 else 200)) for n in range(12)]
    short = replies(fed, units.context(options=Options(output_max_tokens_per_unit=8)))
    assert max(reply.tokens for reply in short) == 6
    assert spoken(short) == spoken(replies(fed))
    ended = [reply.is_end_of_turn for reply in short if reply.decision is Decision.SPEAK]
    assert ended == [False] * (len(ended) - 1) + [True]


def test_the_drain_finishes_what_the_source_cut_off() -> None:
    fed = [units.unit(n, frame=units.picture(100 if n < 2 else 200)) for n in range(3)]
    answered = replies(fed)
    assert [reply.drain for reply in answered if reply.drain] == [1, 2]
    assert answered[-1].is_end_of_turn


def test_the_same_units_and_seed_give_the_same_words_and_the_seed_turns_the_holdings() -> None:
    fed = [units.unit(n, frame=units.picture(100 if n < 2 else 200)) for n in range(8)]
    assert spoken(replies(fed)) == spoken(replies(fed))
    turned = spoken(replies(fed, units.context(options=Options(seed=1))))
    assert turned.startswith("Holdings: Beta AG\n")


def test_nothing_of_one_session_reaches_the_next() -> None:
    engine = RehearsalEngine()
    first = engine.open(units.context())
    first.step(units.unit(0, frame=units.picture(10)), epoch=1, sequence=0)
    first.close()
    second = engine.open(units.context(epoch=2))
    reply = second.step(units.unit(0, frame=units.picture(250)), epoch=2, sequence=0)
    assert reply.decision is Decision.LISTEN
