"use strict";
// All text of a conversation goes into the page as text nodes only: nothing of it is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";
const KINDS = {
  "committed": "committed, in force",
  "failed": "failed and rolled back",
  "put off": "put off or not needed",
  "undone": "undone",
  "redone": "done again",
  "other branch": "on another branch",
  "open": "still open",
  "prepared": "summary prepared ahead",
};
const SHAPES = {
  "committed": "M0-6A6 6 0 1 1 0 6A6 6 0 1 1 0-6Z",
  "failed": "M-6-4-4-6 0-2 4-6 6-4 2 0 6 4 4 6 0 2-4 6-6 4-2 0Z",
  "put off": "M-6 4 0-6 6 4Z",
  "undone": "M-6-6H6V6H-6Z",
  "redone": "M-6-6H6V6H-6ZM-2-2H2V2H-2Z",
  "other branch": "M0-7 7 0 0 7-7 0Z",
  "open": "M-6-2H6V2H-6Z",
  "prepared": "M-6-6 6 0-6 6Z",
};
const state = { data: JSON.parse(document.getElementById("report").textContent), chosen: null };
const byId = (id) => document.getElementById(id);
const number = (value) => (value === null || value === undefined ? "" : value.toLocaleString("en"));
const share = (part, whole) => (whole ? `${Math.round(100 * part / whole)} %` : "");
const dollars = (value) => (value ? `$${value >= 1 ? value.toFixed(2) : value.toPrecision(3)}` : "");
const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;
const moment = (seconds) => new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 19);
const numbersOf = (runs) => runs.flatMap(([start, length]) => Array.from({ length }, (_, at) => start + at));
const classOf = (kind) => kind.replace(" ", "-");

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
const make = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

/** A part whose content is made when it is opened for the first time. */
function folded(title, content, open = false) {
  const part = make("details", {}, make("summary", {}, title));
  const fill = () => part.open && part.childElementCount === 1 && part.append(content());
  part.addEventListener("toggle", fill);
  if (open) { part.open = true; fill(); }
  return part;
}

/** Many things a hundred at a time. */
function inPages(many, render, page = 100) {
  const box = make("div");
  let shown = 0;
  const more = make("button", { type: "button", onclick: () => next(true) });
  function next(asked) {
    const fresh = many.slice(shown, shown + page).map(render);
    more.before(...fresh);
    shown += fresh.length;
    more.hidden = shown >= many.length;
    more.textContent = `Show ${Math.min(page, many.length - shown)} more of ${number(many.length - shown)}`;
    if (asked && fresh[0]) { fresh[0].tabIndex = -1; fresh[0].focus(); }
  }
  box.append(more);
  next(false);
  return box;
}

function table(caption, heads, rows) {
  const head = heads.map(([text, kind]) => make("th", { scope: "col", class: kind }, text));
  const body = make("tbody", {}, ...rows);
  return make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...head)), body);
}

function figures(pairs) {
  return pairs
    .filter(([, value]) => value !== "" && value !== null && value !== undefined)
    .map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value))));
}

const symbol = (kind) => draw("svg", { viewBox: "-7 -7 14 14", "aria-hidden": "true" },
  draw("path", { d: SHAPES[kind], fill: "currentColor", "fill-rule": "evenodd" }));
/** A word of ours such as a verdict, which may go on in the next line after each `_`. */
const word = (whole) => make("span", {}, ...whole.split(/(?<=_)/).flatMap((part, at) => (at ? [make("wbr"), part] : [part])));
const badge = (kind, text) => make("span", { class: `kind ${classOf(kind)}` }, symbol(kind), word(text));

const LONG = 1600, SHORT = 320, AROUND = 160;
const patternOf = (words) => (words ? new RegExp(words.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"), "giu") : null);

/** The text with its hits marked. */
function marked(content, pattern) {
  if (!pattern) return [content];
  const parts = [];
  let at = 0;
  for (const hit of content.matchAll(pattern)) {
    parts.push(content.slice(at, hit.index), make("mark", {}, hit[0]));
    at = hit.index + hit[0].length;
  }
  return [...parts, content.slice(at)];
}

/** What is around the hits of a long text, or its beginning. */
function excerpt(content, most, pattern) {
  const parts = [];
  let end = -1;
  for (const { index, 0: hit } of pattern ? content.matchAll(pattern) : []) {
    const from = Math.max(0, index - AROUND), upto = index + hit.length + AROUND;
    if (from <= end) parts[parts.length - 1][1] = upto; else parts.push([from, upto]);
    end = upto;
  }
  if (!parts.length) return `${content.slice(0, most)} …`;
  return parts.map(([from, upto]) => `${from ? "… " : ""}${content.slice(from, upto)}${upto < content.length ? " …" : ""}`).join("\n");
}

function text(content, most = LONG, pattern = null) {
  if (content.length <= most * 1.25) return make("pre", { class: "text" }, ...marked(content, pattern));
  const body = make("pre", { class: "text" }, ...marked(excerpt(content, most, pattern), pattern));
  const all = make("button", { type: "button", onclick: () => { body.replaceChildren(...marked(content, pattern)); all.remove(); } },
    `Show all ${number(content.length)} characters`);
  return make("div", {}, body, all);
}

const ROLES = { human: "user", ai: "assistant" };
const roleOf = (one) => (one.summary ? "summary" : ROLES[one.role] ?? one.role);
const whole = (one) => [one.text, ...one.calls.map(([name, given]) => `${name}(${given})`)].filter(Boolean).join("\n");

/** Text and tool calls of a message. */
function contentOf(one, most = LONG, pattern = null) {
  const calls = one.calls.map(([name, given]) => make("div", { class: "call" },
    make("strong", {}, "calls ", ...marked(name, pattern)), text(given, most, pattern)));
  return make("div", {}, one.text || !calls.length ? text(one.text, most, pattern) : null, ...calls);
}

/** A message; `place` says how it is marked, `note` in words where it is, `body` what is shown of it. */
function message(seq, place, note, body) {
  const one = state.data.messages[seq], role = roleOf(one);
  const pin = document.body.dataset.key && !one.summary && one.id
    ? make("button", { type: "button", onclick: () => act(one.pinned ? "unpin" : "pin", { message: one.id }) }, one.pinned ? "Unpin" : "Pin") : null;
  return make("article", { class: `message ${place}` },
    make("header", {},
      make("strong", {}, one.name ? `${role} ${one.name}` : role),
      note ? make("span", { class: "sign" }, note) : null,
      make("span", {}, plural(one.tokens, "token")),
      one.pinned ? make("span", {}, "pinned") : null,
      make("code", { title: "its handle: recall it by this" }, one.handle), pin),
    body ?? contentOf(one));
}
