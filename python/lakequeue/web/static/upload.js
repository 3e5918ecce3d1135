// The upload form with a list of what was chosen, dropping, checks before sending, and progress.
// Without this file the form works as it is.

document.documentElement.classList.add("scripted");

const SHOWN = 200; // files in the list

const form = document.getElementById("upload");
if (form) start();

function start() {
  const input = document.getElementById("documents");
  const drop = document.getElementById("drop");
  const chosen = document.getElementById("chosen");
  const problem = document.getElementById("upload-problem");
  const send = document.getElementById("send");
  const sending = document.getElementById("sending");
  const bar = document.getElementById("sent");
  const text = document.getElementById("sent-text");
  const most = Number(form.dataset.most);
  const mostTotal = Number(form.dataset.mostTotal);

  const complain = (words) => {
    problem.textContent = words;
    problem.hidden = !words;
  };

  const size = (bytes) =>
    bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1e3))} kB` : `${(bytes / 1e6).toFixed(1)} MB`;

  const total = () => [...input.files].reduce((sum, file) => sum + file.size, 0);

  const problems = new Map(); // of files, in words

  /** What can be seen of a file before it is sent; the server looks again, and closer. */
  async function inspect(file) {
    if (file.size > most) return "too large";
    if (file.size === 0) return "empty";
    const head = await file.slice(0, 1024).text().catch(() => null);
    if (head === null) return "cannot be read";
    return head.includes("%PDF-") ? "" : "no PDF";
  }

  let rows = []; // of the files that are shown: note and bar

  function list() {
    chosen.replaceChildren();
    chosen.hidden = input.files.length === 0;
    const line = (name, note, kind) => {
      const row = document.createElement("div");
      const left = document.createElement("span");
      const right = document.createElement("span");
      left.textContent = name;
      right.textContent = note;
      right.className = kind === "bad" ? "bad" : "muted";
      if (kind) row.classList.add(kind);
      row.append(left, right);
      chosen.append(row);
      return { row, note: right };
    };
    const files = [...input.files];
    if (files.length > 1) line(`${files.length} files`, size(total()), "total");
    const bad = files.filter((file) => problems.get(file));
    if (bad.length) {
      const { row } = line(`${bad.length} of ${files.length} would be refused`, "", "refusals");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "Leave out";
      button.addEventListener("click", () => choose(files.filter((file) => !problems.get(file))));
      row.append(button);
    }
    rows = files.slice(0, SHOWN).map((file) => {
      const found = problems.get(file);
      return line(file.name, size(file.size) + (found ? `, ${found}` : ""), found && "bad");
    });
    if (files.length > SHOWN) line(`and ${files.length - SHOWN} more`, "");
    complain(
      total() > mostTotal
        ? `These files have ${size(total())} together; ${size(mostTotal)} is the limit. Send them in parts.`
        : "",
    );
  }

  async function look() {
    list();
    await Promise.all(
      [...input.files].map(async (file) => problems.set(file, await inspect(file))),
    );
    if (!send.disabled) list(); // not while it is being sent
  }

  function choose(files) {
    const kept = new DataTransfer();
    for (const file of files) kept.items.add(file);
    input.files = kept.files;
    look();
  }

  /** A bar for each file; they are sent one after the other. */
  function showSent(share) {
    let before = 0;
    const sent = share * total();
    rows.forEach(({ row, note }, index) => {
      const bytes = input.files[index].size;
      const part = share === 1 ? 1 : Math.min(1, Math.max(0, (sent - before) / (bytes || 1)));
      before += bytes;
      let own = row.querySelector("progress");
      if (!own) {
        own = document.createElement("progress");
        own.setAttribute("aria-label", "Sent");
        row.append(own);
      }
      own.value = part;
      if (share === 1) own.removeAttribute("value"); // it is looked at, nobody knows how long
      note.textContent = share === 1 ? "checking" : part === 1 ? "sent" : size(bytes);
    });
  }

  input.addEventListener("change", look);

  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  for (const name of ["dragleave", "drop"]) {
    drop.addEventListener(name, () => drop.classList.remove("over"));
  }
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) choose(event.dataTransfer.files);
  });

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (total() > mostTotal) {
      problem.focus();
      return;
    }
    complain("");
    // fetch cannot tell how much was sent.
    const request = new XMLHttpRequest();
    request.open("POST", form.action);
    request.setRequestHeader("Accept", "application/json");
    request.responseType = "json";
    request.upload.addEventListener("progress", (sent) => {
      if (!sent.lengthComputable) return;
      bar.value = (100 * sent.loaded) / sent.total;
      showSent(sent.loaded / sent.total);
      text.textContent =
        sent.loaded < sent.total
          ? `${size(sent.loaded)} of ${size(sent.total)} sent`
          : "checking the files …";
    });
    const failed = (words) => {
      send.disabled = false;
      sending.hidden = true;
      list();
      complain(words);
    };
    request.addEventListener("load", () => {
      if (request.status === 201) location.assign(request.response.location);
      else failed(request.response?.error?.message ?? `The server answered ${request.status}.`);
    });
    request.addEventListener("error", () =>
      failed("The upload was interrupted. Nothing was submitted: try again."),
    );
    send.disabled = true;
    sending.hidden = false;
    bar.value = 0;
    text.textContent = "sending …";
    request.send(new FormData(form));
  });

  if (input.files.length) look(); // the browser has kept them
}
