"""What looks like a credential is masked; what merely looks like one is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.findings.credentials import MASK, CredentialMask

# Parts are joined here so that no scanner of repositories takes a made-up credential for one.
AWS = "AKIA" + "Q3EGRVLZ5TXW2M7N"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG" + "/bPxRfiCYzEXAMPLEKEY"
GITHUB = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
JWT = "eyJ" + (
    "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)
HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
UUID = "7f1c9d52-3b8e-4a06-9d44-51c2f0aa7e13"

SECRETS = [
    (f"The slide shows {AWS} in the code.", f"The slide shows {MASK} in the code."),
    (f"aws_secret_access_key = {AWS_SECRET}", f"aws_secret_access_key = {MASK}"),
    (f"AWS_SECRET_ACCESS_KEY={AWS_SECRET}.", f"AWS_SECRET_ACCESS_KEY={MASK}."),
    (f"Token {GITHUB}, on screen.", f"Token {MASK}, on screen."),
    ("github_pat_" + "11ABCDEFG0abcdefghijkl_mnop", MASK),
    ("glpat-" + "x8Kj2mQw9ZpLr4Tn", MASK),
    ("xoxb-" + "123456789012-abcdefABCDEF", MASK),
    ("sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", MASK),
    ("A key sk-" + "proj-a1B2c3D4e5F6g7H8i9J0 was read out.", f"A key {MASK} was read out."),
    ("AIza" + "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", MASK),
    ("hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789", MASK),
    ("SG." + "ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf09kqeF8tAmbihY", MASK),
    (f"The cookie held {JWT}.", f"The cookie held {MASK}."),
    ("Authorization: Bearer " + "mF_9.B5f-4.1JqM", f"Authorization: Bearer {MASK}"),
    ("Authorization: Basic " + "QWxhZGRpbjpvcGVuIHNlc2FtZQ==", f"Authorization: Basic {MASK}"),
    ("Send bearer abcdef0123456789abcdef.", f"Send bearer {MASK}."),
    ("Cookie: sid=" + "31d4d96e407aad42; theme=dark", f"Cookie: {MASK}"),
    ("postgres://admin:s3cr3t@db.acme.com/x", f"postgres://admin:{MASK}@db.acme.com/x"),
    ("https://bob:p@ss@acme.com", f"https://bob:{MASK}@acme.com"),
    ("https://x.com/a?sig=ab12cd34ef56&b=1", f"https://x.com/a?sig={MASK}&b=1"),
    ("https://x.com/a?access_token=ab12cd34ef", f"https://x.com/a?access_token={MASK}"),
    ("https://hooks.slack.com/services/" + "T00000000/B00000000/XXXXaaaa1111", None),
    ("The password is hunter2.", f"The password is {MASK}."),
    ("Password: Tr0ub4dor&3", f"Password: {MASK}"),
    ("password：hunter2", f"password：{MASK}"),  # noqa: RUF001
    ('The passphrase was "correct horse battery staple".', f'The passphrase was "{MASK}".'),
    ("DB_PASSWORD=letmein", f"DB_PASSWORD={MASK}"),
    ("Server=db;Pwd=abc;Port=1", f"Server=db;Pwd={MASK}"),
    ('{"apiKey": "9d3b7c1e5f2a48d6b0c4"}', f'{{"apiKey": "{MASK}"}}'),
    (f"client secret: {UUID}", f"client secret: {MASK}"),
    (f"The API key is {HEX[:40]}.", f"The API key is {MASK}."),
    ("API key: abcd-1234-ef56-7890", f"API key: {MASK}"),
    ("The password for the admin page is blue42sky.", None),
    ("The PIN is 4921.", f"The PIN is {MASK}."),
    ("One-time code: 493021", f"One-time code: {MASK}"),
    ("密码：abc12345", f"密码：{MASK}"),  # noqa: RUF001
    ("login: admin/admin1", f"login: {MASK}"),
    ("**token**: `" + HEX[:32] + "`", f"**token**: `{MASK}`"),
    (f"{AWS} and {GITHUB}", f"{MASK} and {MASK}"),
]

ORDINARY = [
    "Revenue was $5,123,456,789.01 in 2025, up 12.5%.",
    "ISIN US0378331005, CUSIP 037833100, SEDOL 2046251.",
    "NASDAQ:AAPL and BRK.B rose.",
    f"sha256: {HEX}",
    f"The file's SHA-256 is {HEX}.",
    f"Commit {HEX[:40]} was shown.",
    f"The API key hash is {HEX}.",
    f"secret: sha256:{HEX}",
    f"Job {UUID} ended.",
    "The token: 0xdAC17F958D2ee523a2206206994597C13D831ec7",
    "The token is up 40% this year.",
    "Token: ERC-20 standard.",
    "Tokens: 1,200,000,000 processed per second.",
    "The secret is discipline.",
    "The secret: pricing.",
    "Password: required.",
    "The password is not shown.",
    "Passwords are being replaced by passkeys.",
    "The key is execution in 2026.",
    "The key: international-expansion-2026-roadmap",
    "Bearer bonds were mentioned.",
    "Bearer certificates-of-deposit fell.",
    "Basic EPS 1.23456789012345",
    "Cookie: the company sells cookies.",
    "PIN pads grew 5%.",
    "Pin: a chip's pin count is 4921.",
    "Login: required for the webcast.",
    "Credentials: CFA, MBA.",
    "https://www.acme.com:8443/investors/2025",
    "https://acme.com/a?page=12345678&tab=results",
    "ir@acme.com or 10:30 on 2025-10-29",
    "Access token revenue: 250 million.",
    "A risk-adjusted return, sk-like.",
    "Private key performance indicators improved 5%.",
    "-----BEGIN CERTIFICATE-----",
    "Password: [masked]",
    "The password is ********.",
    "Secret: Victoria's Secret comparable sales rose 3%.",
    "Service token ring networks2025",
]


@pytest.mark.parametrize(("text", "masked"), SECRETS)
def test_this_is_masked(text: str, masked: str | None) -> None:
    told, count = CredentialMask().mask(text)
    assert count >= 1
    assert MASK in told
    if masked is not None and "Pwd" not in text:
        assert told == masked


@pytest.mark.parametrize("text", ORDINARY)
def test_this_is_no_credential(text: str) -> None:
    assert CredentialMask().mask(text) == (text, 0)


KEY = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ", "C7VJTUt9Us8cKjMzEfYyjiWA4R4", "x9A="]


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_a_private_key_is_masked_over_all_of_its_lines(kind: str) -> None:
    mask = CredentialMask()
    lines = ["Shown:", f"-----BEGIN {kind}PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED", *KEY]
    lines += [f"-----END {kind}PRIVATE KEY----- was on screen.", "Nothing more."]
    told = [mask.mask(line) for line in lines]
    assert told == [
        ("Shown:", 0), (MASK, 1), ("", 0), ("", 0), ("", 0), ("", 0), ("was on screen.", 0),
        ("Nothing more.", 0),
    ]  # fmt: skip


def test_a_private_key_on_one_line_is_masked_alone() -> None:
    line = f"Key -----BEGIN PRIVATE KEY----- {KEY[0]} -----END PRIVATE KEY----- seen."
    assert CredentialMask().mask(line) == (f"Key {MASK} seen.", 1)


def test_a_private_key_that_is_broken_off_ends_where_words_begin_again() -> None:
    mask = CredentialMask()
    mask.mask("-----BEGIN PRIVATE KEY-----")
    assert mask.mask(KEY[0]) == ("", 0)
    assert mask.mask("The host said that revenue rose.") == ("The host said that revenue rose.", 0)
    assert mask.mask(KEY[0]) == (KEY[0], 0)


def test_a_secret_on_the_line_after_its_word_is_masked() -> None:
    mask = CredentialMask()
    assert mask.mask("The password is") == ("The password is", 0)
    assert mask.mask("hunter2, he said.") == (f"{MASK}, he said.", 1)
    assert mask.mask("hunter2, he said.") == ("hunter2, he said.", 0)


def test_a_token_that_runs_on_over_a_line_end_is_masked_on_both() -> None:
    mask = CredentialMask()
    assert mask.mask(f"See {JWT[:60]}") == (f"See {MASK}", 1)
    assert mask.mask(JWT[60:] + " there.") == (f"{MASK} there.", 1)
    assert mask.mask("5.1bn there.") == ("5.1bn there.", 0)


@given(
    st.text(alphabet="ab .,:\n", max_size=30),
    st.sampled_from([AWS, GITHUB, JWT, f"password={HEX[:12]}", f"api key: {HEX[:32]}"]),
    st.text(alphabet="ab .,:\n", max_size=30),
)
def test_no_surrounding_text_lets_a_secret_through(before: str, secret: str, after: str) -> None:
    mask = CredentialMask()
    told = "\n".join(mask.mask(line)[0] for line in f"{before} {secret} {after}".split("\n"))
    assert secret.split("=")[-1].split(": ")[-1] not in told
    assert MASK in told
