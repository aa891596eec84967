// Makes the console's pages live: fetches the same page again, and replaces the parts that change.
// Also adds keys. All pages work without this script.
const PAUSE_MS = 2000;
const state = document.getElementById("live-state");
let failures = 0;

function isInUse(element) {
  const selection = document.getSelection();
  const selects = selection && !selection.isCollapsed && selection.containsNode(element, true);
  return selects || element.contains(document.activeElement);
}

async function refresh() {
  const signal = AbortSignal.timeout(5000);
  const headers = { "X-Live": "1" };
  const response = await fetch(location.href, { cache: "no-store", headers, signal });
  if (response.status === 404) return "this does not exist any more";
  if (!response.ok) throw new Error(response.status);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const element of document.querySelectorAll("[data-live]")) {
    const next = page.getElementById(element.id);
    if (next && !isInUse(element) && next.innerHTML !== element.innerHTML) {
      const left = element.querySelector(".scroll")?.scrollLeft;
      element.replaceWith(document.adoptNode(next));
      if (left) next.querySelector(".scroll").scrollLeft = left;
    }
  }
  return "live";
}

function say(text) {
  if (state.textContent !== text) state.textContent = text;
}

async function live() {
  if (!document.hidden) {
    try {
      say(await refresh());
      failures = 0;
    } catch {
      failures += 1;
      if (failures > 1) say("no answer from the server");
    }
  }
  setTimeout(live, PAUSE_MS * Math.min(1 + failures, 8));
}

function move(step) {
  const rows = [...document.querySelectorAll("tbody tr")];
  if (!rows.length) return;
  const here = rows.findIndex((row) => row.classList.contains("here"));
  const next = rows[Math.max(0, Math.min(rows.length - 1, here + step))];
  rows[here]?.classList.remove("here");
  next.classList.add("here");
  next.querySelector("a")?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else {
    const target = document.querySelector(`header [data-key="${CSS.escape(event.key)}"]`);
    if (!target) return;
    event.preventDefault();
    if (target.matches("input")) target.focus();
    else target.click();
  }
});

setTimeout(live, PAUSE_MS);
