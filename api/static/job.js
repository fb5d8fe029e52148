// Follows a job while it runs, and takes the reader to the moments that its brief cites.
import { clock, localize, page, sleep } from "./page.js";

const WAIT_S = 30;
const PAUSE_MS = 500;
const PAUSE_MAX_MS = 30000;
const BRIEF_EVERY_MS = 4000;
/** A long brief takes long to make: the service spends a small part of its time on this page. */
const BRIEF_COST = 20;
const NEAR_S = 0.25;

localize(document);

// --- the player

const section = document.getElementById("player");
const player = section?.querySelector("video, audio") ?? null;
const originS = Number(section?.dataset.originMs ?? 0) / 1000;
const linksFromS = Math.max(originS, 0);
const lengthS = Number(section?.dataset.lengthMs ?? 0) / 1000;

/** Where the player has source second 0; told by the player itself once it shows something. */
let startsAt = null;
let wanted = null;
let endsAt = null;

/**
 * A file may begin at a time of its own. Some players count from there, some from zero: what the
 * untouched player shows first tells, else the length that it gives does.
 */
function startOf(shownAt, duration) {
  if (Math.abs(shownAt - originS) <= NEAR_S) return originS;
  if (!lengthS || !Number.isFinite(duration)) return originS;
  return duration > lengthS + originS / 2 ? originS : 0;
}

/** Source seconds; the links of the brief are written for a player that counts from the origin. */
function parse(fragment) {
  const found = /^#?t=(?:npt:)?(\d+(?:\.\d+)?)(?:,(\d+(?:\.\d+)?))?$/.exec(fragment);
  if (!found) return null;
  const source = (text) => Math.max(Number(text) - linksFromS, 0);
  return { start: source(found[1]), end: found[2] === undefined ? null : source(found[2]) };
}

function seek() {
  if (!wanted || startsAt === null) return;
  player.currentTime = wanted.start + startsAt;
  endsAt = wanted.end === null ? null : wanted.end + startsAt;
  wanted = null;
}

function play(moment) {
  wanted = moment;
  seek();
  // Refused where the reader has not touched the page yet: then the moment is shown, standing.
  player.play().catch(() => {});
}

function follow(link) {
  const moment = parse(link.hash);
  if (!moment) return false;
  for (const marked of document.querySelectorAll(".is-cited")) marked.classList.remove("is-cited");
  link.closest("article")?.classList.add("is-cited");
  history.replaceState(null, "", link.hash);
  play(moment);
  return true;
}

function say(line) {
  document.getElementById("player-text").textContent = line;
}

if (player) {
  player.addEventListener("loadeddata", () => {
    if (startsAt === null) startsAt = startOf(player.currentTime, player.duration);
    seek();
  });
  player.addEventListener("timeupdate", () => {
    if (startsAt === null || player.seeking) return;
    if (endsAt !== null && player.currentTime >= endsAt) {
      endsAt = null;
      player.pause();
    }
    const ahead =
      startsAt >= NEAR_S ? ` The player’s own clock is ${startsAt.toFixed(1)} s ahead.` : "";
    say(`Source time ${clock(player.currentTime - startsAt)}.${ahead}`);
  });
  player.addEventListener("play", () => section.classList.add("is-playing"));
  for (const name of ["pause", "ended"]) {
    player.addEventListener(name, () => section.classList.remove("is-playing"));
  }
  player.addEventListener("error", () => {
    say("This browser cannot play the recording. The times in the brief are source times.");
  });
  // What was ready before this script is asked for again; nothing has moved the player yet.
  if (player.readyState >= 2) startsAt = startOf(player.currentTime, player.duration);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a.play");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    if (follow(link)) event.preventDefault();
  });
  const fromAddress = () => {
    const moment = parse(location.hash);
    if (moment) play(moment);
  };
  window.addEventListener("hashchange", fromAddress);
  fromAddress();
}

// --- the job

const fresh = document.getElementById("fresh");
let nextBriefAt = Date.now() + BRIEF_EVERY_MS;
let refreshing = Promise.resolve();
let isPlanned = false;
let waiting = null;
let spokenTenth = -1;

function tell(line) {
  const said = document.getElementById("said");
  if (said && said.textContent !== line) said.textContent = line;
}

/** Whether a change under the reader's eyes would take something away from them. */
function isReading() {
  const shown = document.getElementById("brief");
  const selection = getSelection();
  return (
    (shown.contains(document.activeElement) && document.activeElement !== shown) ||
    (selection && !selection.isCollapsed && shown.contains(selection.anchorNode)) ||
    shown.querySelector(".is-cited, .review[open]") !== null ||
    shown.getBoundingClientRect().top < -200
  );
}

function swapPanel(next) {
  const shown = document.getElementById("panel");
  const focused = shown.contains(document.activeElement) ? document.activeElement : null;
  if (focused?.closest("details form")) return;
  const open = Array.from(shown.querySelectorAll("details"), (item) => item.open);
  localize(next);
  shown.replaceWith(next);
  const details = next.querySelectorAll("details");
  if (details.length === open.length) details.forEach((item, at) => (item.open = open[at]));
  if (focused) {
    const same = Array.from(next.querySelectorAll("button, summary, a")).find(
      (item) => item.textContent === focused.textContent,
    );
    next.tabIndex = -1;
    (same ?? next).focus();
  }
}

function swapBrief(next) {
  document.getElementById("brief").replaceWith(next);
  fresh.hidden = true;
  waiting = null;
}

async function load() {
  const began = Date.now();
  const next = await page(location.pathname);
  const took = Date.now() - began;
  nextBriefAt = Date.now() + Math.max(BRIEF_EVERY_MS, BRIEF_COST * took);
  swapPanel(next.getElementById("panel"));
  document.title = next.title;
  const brief = next.getElementById("brief");
  const shown = document.getElementById("brief");
  if (brief.dataset.briefVersion === shown.dataset.briefVersion) return;
  if (isReading()) {
    waiting = brief;
    fresh.hidden = false;
  } else {
    swapBrief(brief);
  }
}

/** One at a time, so that an older page never takes the place of a newer one. */
function refresh() {
  refreshing = refreshing.catch(() => {}).then(load);
  return refreshing;
}

async function refreshLater() {
  if (isPlanned) return;
  isPlanned = true;
  await sleep(Math.max(nextBriefAt - Date.now(), 0));
  isPlanned = false;
  if (document.getElementById("panel").hasAttribute("data-is-live")) await refresh();
}

fresh.querySelector("button").addEventListener("click", () => {
  if (!waiting) return;
  swapBrief(waiting);
  document.getElementById("brief").focus();
});

function show(job) {
  const progress = job.progress ?? {};
  const done = progress.done_s ?? null;
  const total = progress.total_s ?? null;
  const bar = document.getElementById("progress");
  if (bar && done !== null && total) {
    bar.max = total;
    bar.value = Math.min(done, total);
  }
  const amount = document.getElementById("amount");
  if (done !== null) amount.textContent = clock(done) + (total ? ` of ${clock(total)}` : "");
  const pace = document.getElementById("pace");
  if (pace && progress.times_realtime) {
    const left = progress.eta_s ?? null;
    pace.textContent =
      `${progress.times_realtime.toFixed(1)}× realtime` +
      (left === null ? "" : `, about ${clock(left)} left`);
  }
  if (done !== null && total) {
    const tenth = Math.floor((10 * done) / total);
    if (tenth !== spokenTenth) {
      spokenTenth = tenth;
      tell(`${Math.min(tenth * 10, 100)} percent analysed`);
    }
  }
}

async function ask(address, etag) {
  const headers = { Accept: "application/json" };
  // The first answer comes at once: the job may have moved since this page was made.
  if (etag) Object.assign(headers, { Prefer: `wait=${WAIT_S}`, "If-None-Match": etag });
  return fetch(address, { headers, cache: "no-store" });
}

async function watch() {
  let etag = null;
  let pause = PAUSE_MS;
  while (document.getElementById("panel").hasAttribute("data-is-live")) {
    const panel = document.getElementById("panel");
    const asked = Date.now();
    try {
      const response = await ask(panel.dataset.api, etag);
      if (response.status === 401) return location.reload();
      if (response.status === 304) {
        // Answered at once means that the service has no seat for us: ask less often.
        pause = Date.now() - asked < 1000 ? Math.min(pause * 2, PAUSE_MAX_MS) : PAUSE_MS;
      } else if (response.ok) {
        pause = PAUSE_MS;
        etag = response.headers.get("ETag");
        const job = await response.json();
        show(job);
        const isMoved = job.state !== panel.dataset.state;
        if (isMoved) {
          await refresh();
          tell(document.querySelector("#panel .state-word").textContent);
        } else {
          refreshLater().catch(() => {});
        }
      } else {
        throw new Error(String(response.status));
      }
    } catch {
      tell("The connection was lost; trying again.");
      pause = Math.min(pause * 2, PAUSE_MAX_MS);
    }
    await sleep(pause);
  }
}

watch();
