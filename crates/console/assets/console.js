// Makes the console's pages live, and adds keys. All pages work without this script. When the server
// reports new numbers, the script fetches the same page again, and replaces the parts that change.
const PAUSE_MS = 2000;
const EVENTS = "/api/v1/events";
const words = document.body.dataset;
const state = document.getElementById("live-state");
const lost = document.getElementById("lost");
let source, timer, lastAt = 0, isBusy = false, failures = 0, answerAt = new Date();

function say(text) {
  if (state && state.textContent !== text) state.textContent = text;
}

// Old numbers must not look like present ones.
function sayLost(isLost) {
  if (!lost || lost.hidden === !isLost) return;
  if (isLost) lost.textContent = words.wordStale + " " + answerAt.toLocaleTimeString(document.documentElement.lang);
  lost.hidden = !isLost;
}

// A person writes or selects something there, which a new part would take away.
function isInUse(part) {
  const selection = document.getSelection();
  if (selection && !selection.isCollapsed && selection.containsNode(part, true)) return true;
  const focus = document.activeElement;
  return part.contains(focus) && focus.matches("input:not([type=checkbox]), select, textarea");
}

// The name of an element that is the same in the old part and in the new one.
const FOCUSABLE = "a, button, input, summary, [tabindex]";
function nameOf(element) {
  const row = element.closest("tr")?.querySelector("a")?.getAttribute("href") ?? "";
  const own = element.id || element.rel || element.getAttribute("href") || element.name + "=" + element.value;
  return element.localName + " " + own + " " + row;
}

function replace(part, next) {
  const left = part.querySelector(".scroll")?.scrollLeft;
  const focus = part.contains(document.activeElement) && nameOf(document.activeElement);
  const marked = [...part.querySelectorAll("input[type=checkbox]:checked")].map(nameOf);
  const opened = [...part.querySelectorAll("details")].map((one) => one.open);
  document.adoptNode(next);
  for (const box of next.querySelectorAll("input[type=checkbox]")) box.checked = marked.includes(nameOf(box));
  next.querySelectorAll("details").forEach((one, index) => { one.open = opened[index] ?? one.open; });
  part.replaceWith(next);
  const scroll = next.querySelector(".scroll");
  if (left && scroll) scroll.scrollLeft = left;
  if (focus) [...next.querySelectorAll(FOCUSABLE)].find((one) => nameOf(one) === focus)?.focus({ preventScroll: true });
}

async function refresh() {
  const signal = AbortSignal.timeout(5000);
  const response = await fetch(location.href, { cache: "no-store", headers: { "X-Live": "1" }, signal });
  if (response.status === 404) return words.wordGone;
  // The person is no longer signed in, for example because the server started again.
  if (response.status === 401) location.reload();
  if (!response.ok) throw new Error(response.status);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = page.getElementById(part.id);
    if (next && !isInUse(part) && next.innerHTML !== part.innerHTML) replace(part, next);
  }
  return words.wordLive;
}

// Refreshes the page now, or when the pause after the last time is over.
function refreshSoon(pause) {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    if (document.hidden || isBusy) return;
    isBusy = true;
    lastAt = Date.now();
    try {
      say(await refresh());
      failures = 0;
      answerAt = new Date();
    } catch {
      failures += 1;
      if (failures > 1) say(words.wordLost);
    }
    sayLost(failures > 1);
    isBusy = false;
    // Without events, the page asks again after a pause.
    if (source?.readyState !== EventSource.OPEN) refreshSoon(PAUSE_MS * Math.min(1 + failures, 8));
  }, Math.max(0, lastAt + pause - Date.now()));
}

// A hidden page needs no events, and a browser has few connections to a server.
function listen() {
  source?.close();
  source = undefined;
  if (document.hidden || !document.querySelector("[data-live]")) return;
  source = new EventSource(EVENTS);
  source.addEventListener("tick", () => refreshSoon(PAUSE_MS));
  source.addEventListener("operation", () => refreshSoon(PAUSE_MS / 4));
  source.onerror = () => refreshSoon(PAUSE_MS);
  refreshSoon(PAUSE_MS);
}

function move(step) {
  const rows = [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a"));
  const here = rows.indexOf(document.activeElement.closest("tr"));
  const next = here < 0 && step < 0 ? rows.length - 1 : here + step;
  rows[Math.max(0, Math.min(rows.length - 1, next))]?.querySelector("a").focus();
}

// People who speak to their computer can switch single letters off: WCAG 2.1.4.
const SWITCH = "lineshaft-keys";
const hasKeys = () => localStorage.getItem(SWITCH) !== "off";
const box = document.getElementById("keys");
if (box) {
  box.hidden = false;
  const input = box.querySelector("input");
  input.checked = hasKeys();
  input.addEventListener("change", () => localStorage.setItem(SWITCH, input.checked ? "on" : "off"));
}

let goAt = -Infinity;
function press(key) {
  const goes = performance.now() - goAt < 1500;
  goAt = -Infinity;
  if (goes) return document.querySelector(`header [data-key="g ${CSS.escape(key)}"]`);
  if (key === "g") goAt = performance.now();
  else if (key === "j") move(1);
  else if (key === "k") move(-1);
  else return document.querySelector(`[data-key="${CSS.escape(key)}"]`);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const target = hasKeys() && event.key.length === 1 && press(event.key);
  if (!target) return;
  event.preventDefault();
  if (target.matches("input")) target.focus();
  else target.click();
});

document.addEventListener("visibilitychange", listen);
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", (event) => { if (event.persisted) listen(); });
listen();
