// Keys for those who keep this open all day. Off inside fields, and switched off by one box (a
// single key must not surprise people who dictate).

import { refresh, setPaused, isPaused } from "./live.js";

const dialog = document.getElementById("keys");
const on = document.getElementById("keys-on");
const STORE = "lakequeue.keys";

const stored = (name) => {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // a browser that keeps nothing
  }
};

on.checked = stored(STORE) !== "off";
on.addEventListener("change", () => {
  try {
    localStorage.setItem(STORE, on.checked ? "on" : "off");
  } catch {
    // then it is forgotten with the page
  }
});
document.getElementById("keys-open").addEventListener("click", () => dialog.showModal());

/** The link of the navigation whose address begins so. */
function go(path) {
  const link = [...document.querySelectorAll("header.top a")].find(
    (each) => new URL(each.href).pathname === path,
  );
  if (link) location.assign(link.href);
}

const ADDRESSES = { o: "/", t: "/tasks", a: "/agents", e: "/extractions", c: "/activity", u: "/upload" };

let led = 0; // when g was pressed

function row(step) {
  const rows = [...document.querySelectorAll("main tbody tr:has(a)")];
  if (!rows.length) return;
  const here = rows.indexOf(document.activeElement?.closest("tr"));
  const next = here < 0 ? (step > 0 ? 0 : rows.length - 1) : here + step;
  const link = rows[Math.min(rows.length - 1, Math.max(0, next))].querySelector("a");
  link.focus();
  link.scrollIntoView({ block: "nearest" });
}

const ACTIONS = {
  "/": () => {
    const field = document.querySelector("[data-key='/']");
    if (field) field.focus();
    else go("/tasks");
  },
  "?": () => dialog.showModal(),
  j: () => row(1),
  k: () => row(-1),
  x: () => document.activeElement?.closest("tr")?.querySelector("input[type=checkbox]")?.click(),
  r: () => refresh(),
  p: () => setPaused(!isPaused()),
  g: () => {
    led = performance.now();
  },
};

document.addEventListener("keydown", (event) => {
  if (!on.checked || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  const at = event.target;
  if (at.isContentEditable || (at.matches("input, select, textarea") && at.type !== "checkbox")) return;
  const leading = performance.now() - led < 1500;
  led = 0;
  const act = leading && ADDRESSES[event.key] ? () => go(ADDRESSES[event.key]) : ACTIONS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

// --- picking tasks

function picked() {
  const all = document.getElementById("pick-all");
  const count = document.getElementById("picked");
  const boxes = [...document.querySelectorAll("input[form=bulk][name=task]")];
  const chosen = boxes.filter((box) => box.checked).length;
  if (count) count.textContent = chosen ? `${chosen} picked` : "the picked ones";
  if (all) {
    all.checked = chosen > 0 && chosen === boxes.length;
    all.indeterminate = chosen > 0 && chosen < boxes.length;
  }
}

document.addEventListener("change", (event) => {
  if (event.target.id === "pick-all") {
    for (const box of document.querySelectorAll("input[form=bulk][name=task]")) {
      box.checked = event.target.checked;
    }
  }
  if (event.target.matches("#pick-all, input[form=bulk]")) picked();
});
picked();
