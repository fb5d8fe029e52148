// What every page's script uses.

export const csrfToken = () =>
  document.querySelector('meta[name="csrf-token"]')?.content ?? "";

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The page at an address as a document; the server has escaped it, its policy runs nothing. */
export async function page(address) {
  const response = await fetch(address, { headers: { Accept: "text/html" }, cache: "no-store" });
  if (response.redirected || !response.ok) throw new Error(String(response.status));
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

/** 754.5 as 12:34, 3723 as 1:02:03; to the millisecond, since 11.979 − 4.979 is not quite 7. */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds + 0.0005));
  const two = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(whole / 60) % 60;
  const hours = Math.floor(whole / 3600);
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** Times in the reader's own zone; the page has them in UTC. */
export function localize(root) {
  const today = new Date().toDateString();
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    element.title = element.textContent;
    const time = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    const day = { day: "numeric", month: "short", year: "numeric" };
    element.textContent =
      at.toDateString() === today
        ? `Today, ${at.toLocaleTimeString("en-GB", time)}`
        : at.toLocaleString("en-GB", { ...day, ...time });
  }
}
