// Keeps the live parts of a page up to date, and says truthfully how.
//
// An event of the stream means "something has changed": the page is asked for again and its live
// parts are taken over. The same happens every 10 seconds whatever the stream does, since a proxy
// may swallow its bytes without a word. The pill says
//   live     the server has seen the database within the last seconds, and told us so
//   polling  the stream is silent or closed; the page asks every 10 seconds
//   stale    asking does not work either; the time of the last numbers stays on show
//   paused   the person wants it still: nothing is asked, on this page and the next ones

import { morph, morphRows } from "./morph.js";

const POLL = 10_000;
const LEAST_GAP = 800; // between two requests, however many changes there are
const SILENCE = 12_000; // a probe comes every 5 s
const STALE = 25_000;
const FIRST_RETRY = 1_000;
const LONGEST_RETRY = 30_000;
const ANNOUNCE = 10_000;

const pill = document.getElementById("pill");
const pillText = document.getElementById("pill-text");
const asOf = document.getElementById("as-of");
const announcer = document.getElementById("announcer");
const pauseButton = document.getElementById("pause");
const STORE = "lakequeue.paused";

document.documentElement.classList.add("scripted");

let paused = false;
try {
  paused = localStorage.getItem(STORE) === "yes";
} catch {
  // a browser that keeps nothing
}

// --- the numbers

let updatedAt = performance.now(); // the page itself is the first answer
let askedAt = 0;
let asking = false;
let askAgain = false;
let timer = null;
let shownPage = null; // a newer list that waits to be shown

/** Ask for the page again, now. */
export async function refresh() {
  clearTimeout(timer);
  timer = null;
  if (!pill) return; // a page without live parts
  if (asking) {
    askAgain = true;
    return;
  }
  asking = true;
  askAgain = false;
  askedAt = performance.now();
  try {
    const answer = await fetch(location.href, {
      headers: { Accept: "text/html", "X-Live": "1" },
      cache: "no-store",
      redirect: "error",
      signal: AbortSignal.timeout(9_000),
    });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    takeOver(new DOMParser().parseFromString(await answer.text(), "text/html"));
    updatedAt = performance.now();
  } catch {
    // The pill tells; the next try comes by itself.
  } finally {
    asking = false;
    show();
    if (askAgain) changed();
  }
}

/** Something has changed: ask soon, and not more often than needed. */
function changed() {
  if (document.hidden || paused) return;
  const wait = Math.max(0, askedAt + LEAST_GAP - performance.now());
  if (asking) askAgain = true;
  else if (timer === null) timer = setTimeout(refresh, wait);
}

function takeOver(page) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (!fresh) continue;
    const table = part.querySelector("table[data-hold]");
    const freshTable = fresh.querySelector("table[data-hold]");
    if (table && freshTable) hold(part, fresh, table, freshTable);
    else morph(part, fresh);
  }
  const time = page.getElementById("as-of");
  if (time) morph(asOf, time);
  announce();
}

function hold(part, fresh, table, freshTable) {
  const { changed: differs, added } = morphRows(table, freshTable);
  document.getElementById("held").hidden = !differs;
  const button = document.getElementById("show-held");
  if (!differs) morph(part, fresh); // what is around the table
  const words = added ? `${added} new ${button.dataset.what}: show` : "The order has changed: show";
  if (button.textContent !== words) button.textContent = words;
  shownPage = differs ? { part, fresh } : null;
}

document.getElementById("show-held")?.addEventListener("click", () => {
  if (shownPage) morph(shownPage.part, shownPage.fresh);
  shownPage = null;
  document.getElementById("held").hidden = true;
  document.querySelector("[data-live]:has(table[data-hold]) .scroll")?.focus({ preventScroll: true });
});

let announcedAt = 0;
let announced = document.querySelector("[data-announce]")?.textContent;

/** For screen readers: the progress of a batch, at most every 10 seconds. */
function announce() {
  const text = document.querySelector("[data-announce]")?.textContent;
  if (!text || text === announced || performance.now() - announcedAt < ANNOUNCE) return;
  announced = text;
  announcedAt = performance.now();
  announcer.textContent = text;
}

// --- the stream

let source = null;
let heardAt = -Infinity;
let lastId = "";
let retry = FIRST_RETRY;
let retryTimer = null;
let trouble = false;

function open() {
  clearTimeout(retryTimer);
  retryTimer = null;
  if (!pill) return;
  if (source || document.hidden || paused || !("EventSource" in window)) return;
  const address = new URL(pill.dataset.events, location.href);
  if (lastId) address.searchParams.set("last", lastId);
  source = new EventSource(address);
  const hear = (name, then) =>
    source.addEventListener(name, (event) => {
      if (event.lastEventId) lastId = event.lastEventId;
      retry = FIRST_RETRY;
      then?.(event);
      show();
    });
  // What changed between loading the page and opening the stream was not heard of.
  hear("hello", changed);
  hear("resync", changed);
  hear("change", () => {
    heardAt = performance.now();
    trouble = false;
    changed();
  });
  hear("probe", () => {
    heardAt = performance.now();
    trouble = false;
  });
  hear("trouble", () => {
    trouble = true;
  });
  // A planned end: the stream goes on where it was, and was heard of just now.
  hear("bye", () => reopen(0));
  source.onerror = () => reopen();
}

function close() {
  source?.close();
  source = null;
}

/** The browser gives up after any answer but 200, so the next try is ours. */
function reopen(wait) {
  close();
  if (retryTimer !== null) return;
  if (wait === undefined) {
    heardAt = -Infinity;
    wait = Math.random() * retry + 200;
    retry = Math.min(LONGEST_RETRY, retry * 2);
  }
  retryTimer = setTimeout(open, wait);
  show();
}

// --- the pill

const WORDS = {
  live: () => "Live",
  polling: () => "Polling every 10 s",
  stale: () => `Stale: data from ${asOf.textContent}`,
  paused: () => `Paused: data from ${asOf.textContent}`,
};

function state() {
  if (paused) return "paused";
  const now = performance.now();
  if (now - updatedAt > STALE) return "stale";
  if (!trouble && now - heardAt < SILENCE) return "live";
  return "polling";
}

function show() {
  if (!pill) return;
  const now = state();
  pauseButton.textContent = paused ? "Go on" : "Pause";
  pauseButton.setAttribute("aria-pressed", String(paused));
  if (now === "polling" && pill.dataset.state === "static" && performance.now() < 3_000) return;
  const words = WORDS[now]();
  if (pill.dataset.state !== now) pill.dataset.state = now;
  if (pillText.textContent !== words) pillText.textContent = words;
}

// --- the clock

setInterval(() => {
  show();
  if (document.hidden || paused || !pill) return;
  const since = performance.now() - Math.max(updatedAt, askedAt);
  if (since >= POLL && !asking) refresh();
  // A silent stream may be dead without knowing it.
  if (source && heardAt > 0 && performance.now() - heardAt > 2 * SILENCE) reopen();
}, 1_000);

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    // A browser opens six connections to a host in all: a tab that nobody sees needs none.
    clearTimeout(retryTimer);
    retryTimer = null;
    close();
  } else {
    if (paused) return;
    askedAt = 0;
    refresh();
    open();
  }
});
addEventListener("pagehide", close);
addEventListener("pageshow", (event) => {
  if (event.persisted && !paused) {
    refresh();
    open();
  }
});

/** Whether the person has stopped the changes. */
export const isPaused = () => paused;

/** Stop asking, or go on from where things are now. */
export function setPaused(wanted) {
  paused = wanted;
  try {
    localStorage.setItem(STORE, paused ? "yes" : "no");
  } catch {
    // then it holds for this page only
  }
  if (paused) {
    clearTimeout(retryTimer);
    clearTimeout(timer);
    retryTimer = timer = null;
    close();
  } else {
    refresh();
    open();
  }
  show();
}

if (pill) {
  pauseButton.addEventListener("click", () => setPaused(!paused));
  show();
  open();
}
