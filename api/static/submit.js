// Submits the form through the API, with upload progress and every problem beside its field.
import { csrfToken } from "./page.js";

const form = document.getElementById("submit");
const send = document.getElementById("send");
const stop = document.getElementById("stop");
const summary = document.getElementById("summary");
const upload = document.getElementById("upload");
const bar = document.getElementById("upload-bar");
const text = document.getElementById("upload-text");
const said = document.getElementById("said");

// Here the file is sent with the rest: the form that sends it alone is for browsers without scripts.
document.getElementById("recording").removeAttribute("form");

const NOT_SENT = "Nothing was submitted. Please mend what is marked below.";
const STREAMS = ["audio_stream", "video_stream"];
const WHEN = ["priority", "not_before", "ready_by", "zone"];
const FIELDS = [
  ...["recording", "source_url", "portfolio", "objective", "title", "event_date", "engine"],
  ...STREAMS,
  ...WHEN,
];

// Times are the reader's own where nothing else was said.
const zone = form.elements.zone;
if (zone.value === zone.defaultValue && !form.elements.ready_by.value && !form.elements.not_before.value) {
  zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone ?? zone.value;
}

/** The upload that is there already, so that a second try sends no file twice. */
const kept = { file: null, id: form.elements.recording_id.value || null };
/** One key a submission: a repeated click or a lost answer makes no second job. */
let attempt = { body: null, key: null };
let sending = null;

class Refused extends Error {
  constructor(problem) {
    super(problem.detail ?? "The request was refused.");
    this.problems = problem.errors?.length
      ? problem.errors
      : [{ pointer: "", detail: this.message }];
  }
}

function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function fieldOf(pointer) {
  const name = pointer.replace("/options/", "/").split("/")[1] ?? "";
  if (name === "recording_id" || name === "file") return "recording";
  return FIELDS.includes(name) ? name : "general";
}

function control(field) {
  if (field === "portfolio" && form.elements.portfolio_text.value) {
    return form.elements.portfolio_text;
  }
  return document.getElementById(field);
}

function clearProblems() {
  summary.hidden = true;
  for (const list of document.querySelectorAll("[data-problems]")) list.replaceChildren();
  for (const marked of form.querySelectorAll("[aria-invalid]")) {
    marked.removeAttribute("aria-invalid");
  }
}

function showProblems(problems, title = NOT_SENT) {
  clearProblems();
  for (const problem of problems) {
    const field = fieldOf(problem.pointer ?? "");
    const item = document.createElement("li");
    const where = (problem.pointer ?? "").replace("/options/", "/").split("/").slice(2).join(" ");
    if (where) {
      const place = document.createElement("span");
      place.className = "where";
      place.textContent = `${where}: `;
      item.append(place);
    }
    const detail = problem.detail ?? "";
    item.append(document.createTextNode(detail.charAt(0).toUpperCase() + detail.slice(1)));
    document.querySelector(`[data-problems="${field}"]`).append(item);
    control(field)?.setAttribute("aria-invalid", "true");
    control(field)?.closest("details")?.setAttribute("open", "");
  }
  document.getElementById("summary-title").textContent = title;
  summary.hidden = false;
  const first = form.querySelector("[aria-invalid]");
  (first ?? summary).focus();
  (first?.closest(".field") ?? summary).scrollIntoView({ block: "center" });
}

async function problemOf(response) {
  try {
    return new Refused(await response.json());
  } catch {
    return new Refused({ detail: `The service answered ${response.status}. Try again later.` });
  }
}

function size(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  let value = bytes;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

function sendFile(file) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    sending = request;
    let spoken = 0;
    request.open("POST", "/v1/recordings");
    request.responseType = "json";
    request.setRequestHeader("X-CSRF-Token", csrfToken());
    request.upload.addEventListener("progress", (event) => {
      if (!event.lengthComputable) return;
      const part = event.loaded / event.total;
      bar.value = part;
      text.textContent =
        part < 1
          ? `Uploading: ${size(event.loaded)} of ${size(event.total)} (${Math.floor(part * 100)} %)`
          : "Uploaded. The recording is being looked at.";
      if (part - spoken >= 0.25) {
        spoken = part;
        said.textContent = text.textContent;
      }
    });
    request.addEventListener("load", () => {
      if (request.status >= 200 && request.status < 300) resolve(request.response.id);
      else {
        const problem = request.response ?? { detail: `The service answered ${request.status}.` };
        const errors = (problem.errors ?? [{ detail: problem.detail }]).map((error) => ({
          detail: error.detail,
          pointer: "/file",
        }));
        reject(new Refused({ ...problem, errors }));
      }
    });
    const lost = "The connection was lost during the upload. What you typed is kept: submit again.";
    request.addEventListener("error", () => reject(new Refused({ detail: lost })));
    request.addEventListener("abort", () =>
      reject(new Refused({ detail: "The upload was stopped. What you typed is kept." })),
    );
    const body = new FormData();
    body.append("file", file);
    request.send(body);
  });
}

/** Only where the installation fetches links. */
function givenLink() {
  return form.elements.source_url?.value.trim() || null;
}

function givenStreams() {
  const given = STREAMS.map((name) => [name, form.elements[name].value.trim()]);
  return Object.fromEntries(
    given.filter(([, text]) => text).map(([name, text]) => [name, /^\d+$/.test(text) ? +text : text]),
  );
}

async function checked(portfolio, link) {
  const body = new FormData();
  if (link) body.append("source_url", link);
  for (const name of ["objective", "title", "event_date", "engine", ...STREAMS, ...WHEN]) {
    body.append(name, form.elements[name].value);
  }
  if (portfolio.file) body.append("portfolio", portfolio.file);
  else body.append("portfolio_text", portfolio.text);
  const response = await fetch(form.dataset.check, {
    method: "POST",
    headers: { "X-CSRF-Token": csrfToken() },
    body,
  });
  if (!response.ok) throw await problemOf(response);
  return response.json();
}

async function submitJob(recordingId, link, { portfolio, schedule }) {
  const body = JSON.stringify({
    ...(link ? { source_url: link } : { recording_id: recordingId }),
    portfolio,
    objective: form.elements.objective.value,
    title: form.elements.title.value || null,
    event_date: form.elements.event_date.value || null,
    engine: form.elements.engine.value,
    options: givenStreams(),
    ...schedule,
  });
  if (attempt.body !== body) attempt = { body, key: newKey() };
  const response = await fetch("/v1/jobs", {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      "Idempotency-Key": attempt.key,
      "X-CSRF-Token": csrfToken(),
    },
    body,
  });
  if (!response.ok) throw await problemOf(response);
  return (await response.json()).id;
}

async function run() {
  const file = form.elements.file.files[0] ?? null;
  const portfolio = {
    file: form.elements.portfolio.files[0] ?? null,
    text: form.elements.portfolio_text.value,
  };
  // First what is small: nobody shall upload for an hour to learn of a wrong row.
  const link = givenLink();
  if (link && file) {
    const both = "Give a file or a link, not both.";
    throw new Refused({ errors: [{ pointer: "/source_url", detail: both }] });
  }
  const asked = await checked(portfolio, link);
  if (file && kept.file !== file) {
    upload.hidden = false;
    stop.hidden = false;
    bar.value = 0;
    kept.id = await sendFile(file);
    kept.file = file;
    form.elements.recording_id.value = kept.id;
  }
  const id = await submitJob(kept.id, link, asked);
  location.assign(form.dataset.job.replace("JOB", encodeURIComponent(id)));
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  clearProblems();
  send.disabled = true;
  try {
    await run();
  } catch (error) {
    const lost = "The service could not be reached. What you typed is kept: submit again.";
    showProblems(error instanceof Refused ? error.problems : [{ detail: lost }]);
    send.disabled = false;
  } finally {
    sending = null;
    stop.hidden = true;
    if (!send.disabled) upload.hidden = true;
  }
});

stop.addEventListener("click", () => sending?.abort());

window.addEventListener("beforeunload", (event) => {
  if (sending) event.preventDefault();
});
window.addEventListener("pageshow", () => {
  send.disabled = false;
});
