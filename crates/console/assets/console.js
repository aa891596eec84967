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
  const response = await fetch(location.href, { cache: "no-store" });
  if (!response.ok) throw new Error(response.status);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const element of document.querySelectorAll("[data-live]")) {
    const next = page.getElementById(element.id);
    if (next && !isInUse(element) && next.innerHTML !== element.innerHTML) {
      element.replaceWith(document.adoptNode(next));
    }
  }
}

async function live() {
  if (!document.hidden) {
    try {
      await refresh();
      failures = 0;
      state.textContent = "live";
    } catch {
      failures += 1;
      state.textContent = failures > 1 ? "no answer from the server" : "";
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
