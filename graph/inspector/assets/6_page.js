// The figures at the top, the bill, the theme, and following a thread that goes on.

function standing() {
  const { data } = state, last = data.requests[data.requests.length - 1];
  const of = (kind) => data.attempts.filter((one) => one.kind === kind).length;
  byId("standing").replaceChildren(...figures([
    ["turns", number(last?.turn ?? 0)], ["requests", number(data.requests.length)],
    ["in force", number(of("committed"))], ["failed", number(of("failed"))],
    ["messages in view", number(data.in_view.length)], ["said in all", number(data.transcript.length)],
    ["tokens of these messages", number(data.tokens)], ["trigger", number(last?.trigger)], ["limit", number(last?.limit)],
    ["automatic compaction", data.held ? "held until release" : ""],
  ]));
  const real = data.requests.filter((one) => one.real).length;
  const other = data.counters.filter((name) => name !== data.counter);
  byId("counted").textContent = (data.requests.length
    ? `${real === data.requests.length ? "All" : number(real)} of ${plural(data.requests.length, "size")} as the provider reported${real < data.requests.length ? `; the others counted by ${data.counter}` : ""}.`
    : "The database has no request of this thread.")
    + (other.length ? ` The thread's own counter was ${other.join(", ")}: figures of compactions are in its tokens.` : "");
  const kinds = [...new Set(data.attempts.map((one) => one.kind))];
  const rules = ["limit", "trigger"].filter((name) => last?.[name]).map((name) => make("li", {},
    draw("svg", { class: "rule", viewBox: "0 0 28 12", "aria-hidden": "true" }, draw("path", { class: name, d: "M0 6H28" })),
    `${name} ${number(last[name])}: ${name === "limit" ? "the largest request that is sent" : "a compaction starts here"}`));
  const curve = make("li", {}, draw("svg", { class: "rule", viewBox: "0 0 28 12", "aria-hidden": "true" }, draw("path", { class: "size", d: "M0 9 14 3V9L28 3" })),
    "size of a request: click the curve to read it");
  const fall = make("li", {}, draw("svg", { viewBox: "-7 -7 14 14", "aria-hidden": "true" }, draw("path", { class: "fall", d: "M0-7V7" })),
    "from the size before to the size after");
  byId("legend").replaceChildren(curve, ...rules, ...(kinds.length ? [fall] : []), ...kinds.map((kind) => make("li", {}, badge(kind, KINDS[kind]))));
}

function bill() {
  const { agent, summaries } = state.data.bill, heads = ["calls", "input", "cache read", "cache write", "output", "price"];
  const keys = ["calls", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens"];
  const total = Object.fromEntries(keys.map((key) => [key, agent[key] + summaries[key]]));
  total.cost = agent.cost === null || summaries.cost === null ? null : agent.cost + summaries.cost;
  const row = ([name, one]) => make("tr", {}, make("th", { scope: "row" }, name),
    ...keys.map((key) => make("td", { class: "number" }, key === "cache_read_tokens" && one[key] ? `${number(one[key])} (${share(one[key], one.input_tokens)})` : number(one[key]))),
    make("td", { class: "number" }, one.cost === null ? "not known" : dollars(one.cost) || "$0"));
  byId("bill").replaceChildren(table("What all calls took, in tokens. Of the input, the cache parts were read from or written to the provider's cache.",
    [[""], ...heads.map((head) => [head, "number"])], [["agent", agent], ["summaries", summaries], ["together", total]].map(row)));
}

function render() {
  standing();
  bill();
  list();
  chart();
  twin();
  transcript();
  pressed();
}

const remembered = (work) => { try { return work(); } catch { return null; } };
function theme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").setAttribute("aria-pressed", String(dark));
}
const preferred = remembered(() => localStorage.getItem("theme"));
const system = matchMedia("(prefers-color-scheme: dark)").matches;
if (preferred) theme(preferred === "dark");
else byId("theme").setAttribute("aria-pressed", String(system));
byId("theme").addEventListener("click", () => {
  const dark = byId("theme").getAttribute("aria-pressed") !== "true";
  theme(dark);
  remembered(() => localStorage.setItem("theme", dark ? "dark" : "light"));
});

byId("widen").addEventListener("click", () => {
  byId("widen").setAttribute("aria-pressed", String(byId("widen").getAttribute("aria-pressed") !== "true"));
  chart();
});

let waiting = 0;
byId("filter").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(transcript, 150); });
byId("filter").addEventListener("submit", (event) => event.preventDefault());
let width = 0;
new ResizeObserver(() => {
  if (byId("chart").clientWidth !== width) { width = byId("chart").clientWidth; chart(); }
}).observe(byId("chart"));

const PAUSE_MS = 2000;
let due = 0;
/** Take over what has changed: new values, and of lists and tables only the entries that differ. */
function take({ values, entries }) {
  Object.assign(state.data, values);
  for (const [name, { length, at }] of Object.entries(entries)) {
    Object.assign(state.data[name], at);
    if (length !== null) state.data[name].length = length;
  }
}

const standingOf = () => JSON.stringify(state.data.attempts.map((one) => [one.kind, one.row.verdict]));
async function follow(address) {
  clearTimeout(due);
  try {
    const answer = await fetch(`${address}?stamp=${encodeURIComponent(state.data.stamp)}`);
    if (answer.status === 200) {
      const before = standingOf();
      take(await answer.json());
      render();
      if (before !== standingOf()) choose(state.data.attempts.findIndex((one) => one.row.compaction_id === state.chosen), false);
    }
    byId("following").textContent = answer.ok ? "following the thread" : "the thread cannot be read";
  } catch {
    byId("following").textContent = "the server does not answer";
  }
  due = setTimeout(() => follow(address), PAUSE_MS);
}

/** Ask the server for a change of the thread; what it answers is told at the top. */
async function act(what, given) {
  const { key, follow: address } = document.body.dataset, box = byId("done");
  box.textContent = "…";
  try {
    const answer = await fetch(`/${what}`, { method: "POST", headers: { "Content-Type": "application/json", "X-Page-Key": key }, body: JSON.stringify(given) });
    const { said, force } = await answer.json();
    box.replaceChildren(said, ...(force ? [" ", make("button", { type: "button", onclick: () => act(what, { ...given, force: true }) }, "Do it all the same")] : []));
    box.className = answer.ok ? "done" : "done failed";
    await follow(address);
  } catch {
    box.textContent = "the server does not answer";
  }
}

function opened(go) {
  const request = /^#request-(\d+)$/.exec(location.hash);
  if (request) ask(Number(request[1]) - 1, Boolean(go));
  else choose(state.data.attempts.findIndex((one) => `#${one.row.compaction_id}` === location.hash), Boolean(go));
}
render();
byId("chart").scrollLeft = byId("chart").scrollWidth;
addEventListener("hashchange", opened);
if (location.hash.length > 1) opened();
if (!state.chosen) choose(state.data.attempts.findLastIndex(isAttempt), false);
if (document.body.dataset.follow) follow(document.body.dataset.follow);
performance.mark("interactive");
