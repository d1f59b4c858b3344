// The transcript, the figures at the top, the theme, and following a thread that goes on.

const GROUP = 50;
function places() {
  const { in_view: view, messages } = state.data;
  const numbers = new Set(view), names = new Set(view.map((seq) => messages[seq].id)), changed = new Map();
  state.data.attempts.forEach(({ kind, left, clipped }, index) => {
    if (kind === "committed") for (const seq of [...left, ...clipped.map((pair) => pair[0])]) changed.set(messages[seq].id, index);
  });
  return (seq) => {
    const { id } = messages[seq], at = changed.get(id), place = names.has(id) ? "shortened" : "archive";
    if (numbers.has(seq)) return ["view", "in view"];
    if (at === undefined) return [place, "in the archive"];
    const words = `${place === "archive" ? "left" : place} at compaction ${at + 1}`;
    return [place, make("a", { href: `#${state.data.attempts[at].row.compaction_id}` }, words)];
  };
}

function transcript() {
  const { transcript: said, in_view: view, messages } = state.data;
  const form = new FormData(byId("filter")), words = form.get("words").toLowerCase(), wanted = form.get("place");
  const placeOf = places();
  const from = wanted === "view" ? view : said;
  const found = from.filter((seq) => (wanted !== "archive" || placeOf(seq)[0] !== "view")
    && (!words || messages[seq].text.toLowerCase().includes(words)));
  byId("count").textContent = `${plural(found.length, "message")}${words ? ` with “${words}”` : ""}`;
  const groups = [];
  for (let at = 0; at < found.length; at += GROUP) groups.push([at, found.slice(at, at + GROUP)]);
  byId("transcript").replaceChildren(...groups.map(([at, group], index) => folded(
    `Messages ${number(at + 1)} to ${number(at + group.length)}`,
    () => make("div", {}, ...group.map((seq) => message(seq, ...placeOf(seq)))),
    index === groups.length - 1)));
}

function standing() {
  const { data } = state, last = data.requests[data.requests.length - 1];
  const of = (kind) => data.attempts.filter((one) => one.kind === kind).length;
  byId("standing").replaceChildren(...figures([
    ["turns", number(last?.turn ?? 0)], ["requests", number(data.requests.length)],
    ["in force", number(of("committed"))], ["failed", number(of("failed"))],
    ["messages in view", number(data.in_view.length)], ["said in all", number(data.transcript.length)],
    ["tokens in view", number(data.tokens)], ["trigger", number(last?.trigger)], ["limit", number(last?.limit)],
    ["read by the agent", number(data.bill.agent.input_tokens || null)], ["of these cached", number(data.bill.agent.cache_read_tokens || null)],
    ["cost of its calls", dollars(data.bill.agent.cost)], ["cost of summaries", dollars(data.bill.summaries.cost)],
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
    `${name} ${number(last[name])}`));
  byId("legend").replaceChildren(...kinds.map((kind) => make("li", {}, badge(kind, KINDS[kind]))), ...rules);
}

function render() {
  standing();
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
  byId("chart").scrollLeft = byId("chart").scrollWidth;
});

let waiting = 0;
byId("filter").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(transcript, 150); });
byId("filter").addEventListener("submit", (event) => event.preventDefault());
let width = 0;
new ResizeObserver(() => {
  if (byId("chart").clientWidth !== width) { width = byId("chart").clientWidth; chart(); }
}).observe(byId("chart"));

const PAUSE_MS = 2000;
async function follow(address) {
  try {
    const answer = await fetch(`${address}?stamp=${encodeURIComponent(state.data.stamp)}`);
    if (answer.status === 200) {
      state.data = await answer.json();
      render();
    }
    byId("following").textContent = answer.ok ? "following the thread" : "the thread cannot be read";
  } catch {
    byId("following").textContent = "the server does not answer";
  }
  setTimeout(() => follow(address), PAUSE_MS);
}

const opened = (go) => choose(state.data.attempts.findIndex((one) => `#${one.row.compaction_id}` === location.hash), Boolean(go));
render();
addEventListener("hashchange", opened);
if (location.hash.length > 1) opened();
if (!state.chosen) choose(state.data.attempts.findLastIndex((one) => one.kind === "committed"), false);
if (document.body.dataset.follow) follow(document.body.dataset.follow);
performance.mark("interactive");
