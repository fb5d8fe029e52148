"""What an analyst does about findings, and the search, as a browser without scripts has them."""

from __future__ import annotations

import re

import pytest
from flask.testing import FlaskClient

from pipeline.ledger import notes
from tests.api.reviewed import KEY, ended
from tests.api.site import Site, client, running, signed_in, site

__all__ = ["client", "running", "site"]


@pytest.fixture
def job_id(site: Site) -> str:
    return ended(site.database, site.owner, "A <i>chart</i> falls.", "Orders of 1.9 billion.")


def noted(site: Site, job_id: str) -> list[tuple[str, str]]:
    return [(note.action.value, note.text) for note in notes.of_job(site.database, job_id)]


def test_a_finding_is_accepted_with_a_word_and_the_page_shows_it(
    site: Site, client: FlaskClient, job_id: str
) -> None:
    csrf = signed_in(site, client)
    page = client.get(f"/jobs/{job_id}").text
    places = re.findall(r'action="(/jobs/[^"]+/notes)"', page)
    assert len(places) == 2
    form = {"csrf_token": csrf, "action": "accept", "text": "Page 12 <b>agrees</b>."}
    answer = client.post(places[0], data=form)
    assert (answer.status_code, answer.location) == (303, f"/jobs/{job_id}#review-{KEY}")
    page = client.get(answer.location).text
    assert "Page 12 &lt;b&gt;agrees&lt;/b&gt;." in page
    assert re.search(r'class="state accepted">\w', page)
    assert noted(site, job_id) == [("accept", "Page 12 <b>agrees</b>.")]


def test_what_is_refused_stands_beside_the_finding_and_takes_nothing_away(
    site: Site, client: FlaskClient, job_id: str
) -> None:
    csrf = signed_in(site, client)
    place = f"/jobs/{job_id}/findings/{KEY}/notes"
    long = "x" * 2001
    answer = client.post(place, data={"csrf_token": csrf, "action": "note", "text": long})
    assert answer.status_code == 422
    assert "at most 2000 are accepted" in answer.text
    assert long in answer.text
    assert answer.text.count(' class="review" id=') == answer.text.count("<details class=") == 2
    assert answer.text.count(f'id="review-{KEY}" open') == 1
    assert client.post(place, data={"csrf_token": csrf, "action": "note"}).status_code == 422
    assert client.post(place, data={"csrf_token": csrf}).status_code == 422
    assert noted(site, job_id) == []


def test_a_form_of_another_site_or_for_anothers_job_writes_nothing(
    site: Site, client: FlaskClient, job_id: str
) -> None:
    csrf = signed_in(site, client)
    place = f"/jobs/{job_id}/findings/{KEY}/notes"
    assert client.post(place, data={"action": "accept"}).status_code == 403
    missing = f"/jobs/{job_id}/findings/1.7.0/notes"
    accept = {"csrf_token": csrf, "action": "accept"}
    assert client.post(missing, data=accept).status_code == 404
    other = site.app.test_client()
    csrf = signed_in(site, other, owner="eve")
    assert other.post(place, data=accept | {"csrf_token": csrf}).status_code == 404
    assert noted(site, job_id) == []


def test_a_search_leads_to_the_moment_on_the_jobs_page(
    site: Site, client: FlaskClient, job_id: str
) -> None:
    signed_in(site, client)
    assert 'href="/jobs/search"' in client.get("/jobs").text
    page = client.get("/jobs/search", query_string={"text": "chart", "holding": "ACME"}).text
    assert "A &lt;i&gt;chart&lt;/i&gt; falls." in page
    assert "1.9 billion" not in page
    assert re.findall(r'href="(/jobs/[0-9a-f-]+#t=[0-9.,]+)"', page) == [f"/jobs/{job_id}#t=0,1"]
    assert 'value="chart"' in page
    assert "1.9 billion" in client.get("/jobs/search").text
    assert "Nothing fits" in client.get("/jobs/search?state=done").text
    other = site.app.test_client()
    signed_in(site, other, owner="eve")
    assert "chart" not in other.get("/jobs/search").text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("text=%25", "no letter, digit or sign"),
        ("submitted_from=2026-02-30", "no day of the calendar"),
        ("state=new", "input should be"),
        ("after=x", "cursor"),
    ],
)
def test_a_search_that_is_refused_says_why(
    site: Site, client: FlaskClient, query: str, said: str
) -> None:
    signed_in(site, client)
    answer = client.get(f"/jobs/search?{query}")
    assert answer.status_code == 422
    assert said in answer.text


def test_a_long_list_of_hits_goes_on(
    site: Site, client: FlaskClient, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.finder.HITS_PER_PAGE", 1)
    signed_in(site, client)
    page = client.get("/jobs/search?holding=acme").text
    (more,) = re.findall(r'href="(/jobs/search\?[^"]*after=[^"]*)"', page)
    second = client.get(more.replace("&amp;", "&")).text
    assert "1.9 billion" in second
    assert "chart" not in second
    assert "First page" in second
