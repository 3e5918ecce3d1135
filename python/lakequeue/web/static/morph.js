// Makes an element on the page equal to one from a newer copy of the page, changing only what
// differs: focus, selection, scroll positions and open <details> stay as they are.

/** Make `old` equal to `next`; `next` may lose its children. */
export function morph(old, next) {
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) {
    old.replaceWith(next);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
    return;
  }
  attributes(old, next);
  children(old, next);
}

function attributes(old, next) {
  for (const { name, value } of [...next.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    // What the person has opened stays open.
    if (!next.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) {
      old.removeAttribute(name);
    }
  }
}

function children(old, next) {
  const known = new Map();
  for (const child of old.children) if (child.id) known.set(child.id, child);
  let place = old.firstChild;
  for (const wanted of [...next.childNodes]) {
    const same = wanted.id ? known.get(wanted.id) : null;
    if (same) {
      if (same === place) place = place.nextSibling;
      else old.insertBefore(same, place);
      morph(same, wanted);
    } else if (place && !place.id && !wanted.id && place.nodeName === wanted.nodeName) {
      const after = place.nextSibling;
      morph(place, wanted);
      place = after;
    } else {
      old.insertBefore(wanted, place);
    }
  }
  while (place) {
    const after = place.nextSibling;
    place.remove();
    place = after;
  }
}

/**
 * The same for a table whose rows must not move while somebody reads them: rows are brought up to
 * date where they stand. Returns whether the list itself has changed, and how many rows are new.
 */
export function morphRows(old, next) {
  const body = old.tBodies[0];
  const fresh = new Map([...next.tBodies[0].rows].map((row) => [row.id, row]));
  const order = [...fresh.keys()];
  const known = [...body.rows].map((row) => row.id);
  const changed = order.join() !== known.join();
  const added = order.filter((id) => !known.includes(id)).length;
  for (const row of body.rows) {
    const wanted = fresh.get(row.id);
    if (wanted) morph(row, wanted.cloneNode(true)); // the newer copy may be shown later
    else row.classList.add("gone");
  }
  return { changed, added };
}
