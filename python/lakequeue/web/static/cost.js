// While billing is asked: the seconds tick, and the page is loaded again when it has got further.
// Without this file the page refreshes itself (see cost.html).

let told = ""; // what the server said last, and when
let toldAt = 0;

function tick() {
  const elapsed = document.getElementById("elapsed");
  if (!elapsed) return;
  if (elapsed.dataset.seconds !== told) {
    told = elapsed.dataset.seconds;
    toldAt = performance.now();
  }
  elapsed.textContent = `${Number(told) + Math.floor((performance.now() - toldAt) / 1000)} s`;
}

async function look() {
  const asking = document.getElementById("asking");
  if (!asking || document.hidden) return;
  try {
    const answer = await fetch(asking.dataset.status, { cache: "no-store" });
    if (!answer.ok) return;
    const found = await answer.json();
    const phase = `${found.fetch_id} ${found.phase}`;
    if (found.state !== "running" || phase !== asking.dataset.phase) location.reload();
  } catch {
    // The next look comes by itself.
  }
}

tick();
setInterval(tick, 1_000);
setInterval(look, 2_000);
