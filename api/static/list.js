// Keeps the list of jobs up to date while one of them is on its way.
import { localize, page, sleep } from "./page.js";

const EVERY_MS = 4000;
const EVERY_MAX_MS = 60000;

localize(document);

async function follow() {
  let pause = EVERY_MS;
  while (document.getElementById("jobs")?.hasAttribute("data-is-live")) {
    await sleep(pause);
    if (document.hidden) continue;
    try {
      const fresh = (await page(location.href)).getElementById("jobs");
      const shown = document.getElementById("jobs");
      const focused = shown.contains(document.activeElement)
        ? document.activeElement.getAttribute("href")
        : null;
      localize(fresh);
      shown.replaceWith(fresh);
      if (focused) fresh.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
      pause = EVERY_MS;
    } catch {
      pause = Math.min(pause * 2, EVERY_MAX_MS);
    }
  }
}

follow();
