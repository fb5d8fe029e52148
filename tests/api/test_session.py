"""Sessions: signed in with a key or a link, and out again."""

from __future__ import annotations

import re

import pytest
from flask.testing import FlaskClient

from pipeline.ledger import audit, keys
from tests.api.site import Site, client, running, signed_in, site

__all__ = ["client", "running", "site"]


def test_a_reader_without_a_session_is_asked_to_sign_in_and_comes_back(client: FlaskClient) -> None:
    answer = client.get("/jobs?state=failed")
    assert answer.status_code == 303
    assert answer.location == "/sign-in?next=/jobs?state%3Dfailed"
    assert 'name="next" value="/jobs?state=failed"' in client.get(answer.location).text


def test_a_key_signs_in_and_its_cookie_cannot_be_read_by_scripts_or_sent_by_other_sites(
    site: Site, client: FlaskClient
) -> None:
    answer = client.post("/sign-in", data={"key": site.key()[1], "next": "/jobs/new"})
    assert answer.status_code == 200
    assert 'content="0; url=/jobs/new"' in answer.text
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert client.get("/jobs").status_code == 200


@pytest.mark.parametrize("secret", ["", "omnai_wrong", "x" * 5000])
def test_a_wrong_key_is_refused_in_words(client: FlaskClient, secret: str) -> None:
    answer = client.post("/sign-in", data={"key": secret})
    assert answer.status_code == 403
    assert "This key is not valid" in answer.text
    assert "Set-Cookie" not in answer.headers


def test_a_sign_in_form_of_another_site_is_refused(site: Site, client: FlaskClient) -> None:
    secret = site.key()[1]
    for origin in ("https://evil.example", "null"):
        answer = client.post("/sign-in", data={"key": secret}, headers={"Origin": origin})
        assert answer.status_code == 403
        assert "Set-Cookie" not in answer.headers


def test_a_sign_in_link_works_once_and_a_preview_does_not_use_it_up(
    site: Site, client: FlaskClient
) -> None:
    link = site.link()
    client.head(link)
    assert "Set-Cookie" in client.get(link).headers
    again = site.app.test_client().get(link)
    assert again.status_code == 403
    assert "used before" in again.text


@pytest.mark.parametrize(
    "wanted", ["https://evil.example", "//evil.example", "/\\evil", "/jobs\\..\\x", "javascript:1"]
)
def test_signing_in_never_leads_away_from_the_site(
    site: Site, client: FlaskClient, wanted: str
) -> None:
    answer = client.post("/sign-in", data={"key": site.key()[1], "next": wanted})
    assert 'content="0; url=/jobs"' in answer.text


def test_a_revoked_key_ends_its_sessions_at_once(site: Site, client: FlaskClient) -> None:
    key, secret = site.key()
    client.post("/sign-in", data={"key": secret})
    assert client.get("/jobs").status_code == 200
    keys.revoke(site.database, key.id)
    assert client.get("/jobs").status_code == 303


def test_signing_out_needs_the_token_and_takes_the_cookie(site: Site, client: FlaskClient) -> None:
    csrf = signed_in(site, client)
    assert client.post("/sign-out").status_code == 403
    assert client.post("/sign-out", data={"csrf_token": csrf}).status_code == 200
    assert client.get("/jobs").status_code == 303
    told = audit.listed(site.database, limit=2)
    assert [entry.action for entry in told] == ["signed_out", "signed_in"]
    assert {entry.owner for entry in told} == {site.owner}


def test_every_page_forbids_inline_script_and_style(site: Site, client: FlaskClient) -> None:
    signed_in(site, client)
    for address in ("/jobs", "/jobs/new", "/jobs/unknown", "/sign-in"):
        answer = client.get(address)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert not re.search(r"<style|<script>|\son[a-z]+=|\sstyle=", answer.text)
