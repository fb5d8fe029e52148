"""A link is read once and strictly, whatever tricks its spelling plays."""

from __future__ import annotations

import pytest

from pipeline.link import Link, LinkRefused, follow, read_link

REFUSED = {
    "http://example.com/a.mp4": "link_scheme_refused",
    "ftp://example.com/a.mp4": "link_scheme_refused",
    "file:///etc/passwd": "link_scheme_refused",
    "gopher://example.com/": "link_scheme_refused",
    "javascript:alert(1)": "link_scheme_refused",
    "data:video/mp4;base64,AAAA": "link_scheme_refused",
    "concat:https://example.com/a": "link_scheme_refused",
    "example.com/a.mp4": "link_malformed",
    "//example.com/a.mp4": "link_malformed",
    "https:example.com/a.mp4": "link_malformed",
    "https:/example.com/a.mp4": "link_malformed",
    "https://": "link_host_refused",
    "https:///a.mp4": "link_host_refused",
    "https://?a": "link_host_refused",
    "https://user@example.com/": "link_credentials_refused",
    "https://user:secret@example.com/": "link_credentials_refused",
    "https://example.com@127.0.0.1/": "link_credentials_refused",
    "https://@example.com/": "link_credentials_refused",
    "https://example.com:80/": "link_port_refused",
    "https://example.com:8443/": "link_port_refused",
    "https://example.com:/": "link_port_refused",
    "https://example.com:0443/": "link_port_refused",
    "https://example.com:443:443/": "link_port_refused",
    "https://example.com:\uff14\uff14\uff13/": "link_host_refused",
    "https://example.com/#t=30": "link_fragment_refused",
    "https://example.com#@127.0.0.1/": "link_fragment_refused",
    "https://example.com/#": "link_fragment_refused",
    "https://127.0.0.1\\@example.com/": "link_character_refused",
    "https://example.com\\@127.0.0.1/": "link_character_refused",
    "https:\\\\example.com/": "link_character_refused",
    "https://exa mple.com/": "link_character_refused",
    "https://example.com/a b.mp4": "link_character_refused",
    "https://example.com/a\tb.mp4": "link_character_refused",
    "https://exam\nple.com/": "link_character_refused",
    "https://example.com/\r\nHost: inner": "link_character_refused",
    "https://example.com/\0": "link_character_refused",
    "https://example.com/a\u200bb": "link_character_refused",
    "https://example.com/\u202egpm.4": "link_character_refused",
    "https://example.com/\ud800": "link_character_refused",
    "https://example.com/\u00a0": "link_character_refused",
    "https://[::1]/": "link_host_refused",
    "https://[::ffff:127.0.0.1]/": "link_host_refused",
    "https://[fe80::1%25eth0]/": "link_host_refused",
    "https://[2606:4700::1111]/": "link_host_refused",
    "https://::1/": "link_port_refused",
    "https://①②⑦.⓪.⓪.①/": "link_host_refused",
    "https://127。0。0。1/": "link_host_refused",
    "https://bücher.example/": "link_host_refused",
    "https://\uff45xample.com/": "link_host_refused",
    "https://example.com./": "link_host_refused",
    "https://.example.com/": "link_host_refused",
    "https://a..b/": "link_host_refused",
    "https://-a.example/": "link_host_refused",
    "https://a-.example/": "link_host_refused",
    "https://exam%70le.com/": "link_host_refused",
    "https://127.0.0.1%2f@x/": "link_credentials_refused",
    "https://exa*mple.com/": "link_host_refused",
    "https://exa,mple.com/": "link_host_refused",
    "https://exa;mple.com/": "link_host_refused",
    f"https://{'a' * 64}.example/": "link_host_refused",
    f"https://{'a.' * 127}example/": "link_host_refused",
    f"https://example.com/{'a' * 8000}": "link_too_long",
    "": "link_type",
    "   ": "link_type",
}


@pytest.mark.parametrize(("text", "code"), REFUSED.items(), ids=range(len(REFUSED)))
def test_a_link_that_could_lead_elsewhere_is_refused(text: str, code: str) -> None:
    with pytest.raises(LinkRefused) as refused:
        read_link(text)
    assert [found.code for found in refused.value.problems] == [code]
    assert refused.value.problems[0].where == "/source_url"


@pytest.mark.parametrize("value", [None, 5, True, [], {"url": "https://example.com"}])
def test_what_is_no_text_is_no_link(value: object) -> None:
    with pytest.raises(LinkRefused):
        read_link(value)


@pytest.mark.parametrize(
    ("text", "host", "target"),
    [
        ("https://example.com", "example.com", "/"),
        ("HTTPS://Example.COM/A.mp4", "example.com", "/A.mp4"),
        ("  https://example.com:443/a.mp4\n", "example.com", "/a.mp4"),
        ("https://example.com?a=b", "example.com", "/?a=b"),
        ("https://xn--bcher-kva.example/ü.mp4", "xn--bcher-kva.example", "/%C3%BC.mp4"),
        (
            "https://a_b.example/%2e%2E/x%20y?sig=a/b+c%3d",
            "a_b.example",
            "/%2e%2E/x%20y?sig=a/b+c%3d",
        ),
        (
            "https://example.com//x@y:z?u=https://127.0.0.1/",
            "example.com",
            "//x@y:z?u=https://127.0.0.1/",
        ),
        ('https://example.com/"<a>^`{}', "example.com", "/%22%3Ca%3E%5E%60%7B%7D"),
        # What these lead to is decided by what the resolver makes of them.
        ("https://2130706433/", "2130706433", "/"),
        ("https://0x7f.1/", "0x7f.1", "/"),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_what_was_written(text: str, host: str, target: str) -> None:
    link = read_link(text)
    assert (link.host, link.target) == (host, target)
    assert read_link(link.text) == link


def test_only_the_host_of_a_link_is_printed() -> None:
    link = read_link("https://example.com/private/q3.mp4?token=hush")
    assert "hush" not in f"{link} {link!r}"
    assert "private" not in f"{link} {link!r}"
    assert link.filename == "q3.mp4"


@pytest.mark.parametrize(
    ("text", "filename"),
    [
        ("https://example.com/", ""),
        ("https://example.com/a/b%20c.mp4?x=/y", "b c.mp4"),
        ("https://example.com/a%2Fb.mp4", "a/b.mp4"),
        ("https://example.com/%FF.mp4", "\ufffd.mp4"),
    ],
)
def test_the_last_part_of_the_path_is_its_name(text: str, filename: str) -> None:
    assert read_link(text).filename == filename


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("/b.mp4", "https://example.com/b.mp4"),
        ("b.mp4?x=1", "https://example.com/a/b.mp4?x=1"),
        ("//other.example/b", "https://other.example/b"),
        ("https://other.example/b?y", "https://other.example/b?y"),
        ("", "https://example.com/a/c?k"),
    ],
)
def test_a_redirect_is_read_from_where_it_was_found(location: str, leads_to: str) -> None:
    assert follow(read_link("https://example.com/a/c?k"), location) == read_link(leads_to)


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://example.com/b", "link_scheme_refused"),
        ("//user@example.com/b", "link_credentials_refused"),
        ("https://example.com:8080/b", "link_port_refused"),
        ("//[::1]/b", "link_host_refused"),
        ("//[::1", "link_malformed"),
        ("//①②⑦.⓪.⓪.①/", "link_host_refused"),
        ("\t//inner/", "link_character_refused"),
        ("/\\inner/b", "link_character_refused"),
        ("file:///etc/passwd", "link_scheme_refused"),
        ("#x", "link_fragment_refused"),
    ],
)
def test_a_redirect_is_held_to_the_same_rules(location: str, code: str) -> None:
    with pytest.raises(LinkRefused) as refused:
        follow(read_link("https://example.com/a/c"), location)
    assert refused.value.problems[0].code == code


def test_a_link_is_what_a_row_keeps_of_it() -> None:
    assert Link(host="a.example", target="/b?c").text == "https://a.example/b?c"
