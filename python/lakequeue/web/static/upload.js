// The upload form with a list of what was chosen, dropping, checks before sending, and progress.
// Without this file the form works as it is.

document.documentElement.classList.add("scripted");

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

  function list() {
    chosen.replaceChildren();
    chosen.hidden = input.files.length === 0;
    const line = (name, note, bad, kind) => {
      const row = document.createElement("div");
      const left = document.createElement("span");
      const right = document.createElement("span");
      left.textContent = name;
      right.textContent = note;
      right.className = bad ? "bad" : "muted";
      if (kind) row.className = kind;
      row.append(left, right);
      chosen.append(row);
    };
    for (const file of [...input.files].slice(0, 200)) {
      const tooLarge = file.size > most;
      line(file.name, size(file.size) + (tooLarge ? ", too large: will be refused" : ""), tooLarge);
    }
    if (input.files.length > 200) line(`and ${input.files.length - 200} more`, "");
    if (input.files.length > 1) {
      line(`${input.files.length} files`, size(total()), total() > mostTotal, "total");
    }
    complain(
      total() > mostTotal
        ? `These files have ${size(total())} together; ${size(mostTotal)} is the limit. Send them in parts.`
        : "",
    );
  }

  input.addEventListener("change", list);

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
    const files = new DataTransfer();
    for (const file of event.dataTransfer.files) files.items.add(file);
    if (files.files.length) {
      input.files = files.files;
      list();
    }
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
      text.textContent =
        sent.loaded < sent.total
          ? `${size(sent.loaded)} of ${size(sent.total)} sent`
          : "checking the files …";
    });
    const failed = (words) => {
      send.disabled = false;
      sending.hidden = true;
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

  if (input.files.length) list(); // the browser has kept them
}
