// The transcript by turn: where each message is now, and a search in all of them.

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
    return [place, link(at, `${place === "archive" ? "left" : place} at compaction ${at + 1}`)];
  };
}

/** The turns of messages, in order: `[turn, messages]`. A turn ends with its last answer. */
function turnsOf(seqs) {
  const { requests, messages } = state.data;
  const answers = new Map(requests.map((one) => [one.answer, one.turn]));
  const turns = new Array(seqs.length);
  let turn = null;
  for (let at = seqs.length - 1; at >= 0; at -= 1) turns[at] = turn = answers.get(seqs[at]) ?? turn;
  const groups = [];
  turn = 0;
  seqs.forEach((seq, at) => {
    const begins = turns[at] === null && messages[seq].role === "human";
    const own = turns[at] ?? (begins || !turn ? turn + 1 : turn);
    if (own !== turn || !groups.length) groups.push([own, []]);
    groups[groups.length - 1][1].push(seq);
    turn = own;
  });
  return groups;
}

function titleOf(turn, group, said, placeOf) {
  const { messages } = state.data;
  const asked = said.map((seq) => messages[seq]).find((one) => one.role === "human" && !one.summary);
  const signs = [...new Set(group.map((seq) => placeOf(seq)[1]).map((note) => note.textContent ?? note))];
  return make("span", {}, `Turn ${number(turn)}: `, make("span", { class: "asked" }, asked ? asked.text.slice(0, 100).replace(/\s+/g, " ") : ""),
    make("span", { class: "quiet" }, ` ${plural(group.length, "message")}, ${signs.slice(0, 3).join(", ")}${signs.length > 3 ? " …" : ""}`));
}

function transcript() {
  const { transcript: said, in_view: view, messages } = state.data;
  const form = new FormData(byId("filter")), words = form.get("words"), wanted = form.get("place");
  const pattern = patternOf(words), placeOf = places();
  const from = wanted === "view" ? view : said;
  const fits = (seq) => (wanted !== "archive" || placeOf(seq)[0] !== "view") && (!pattern || whole(messages[seq]).search(pattern) >= 0);
  const groups = turnsOf(from).map(([turn, group]) => [turn, group.filter(fits), group]).filter(([, group]) => group.length);
  const found = groups.flatMap(([, group]) => group);
  const hits = pattern ? found.reduce((sum, seq) => sum + [...whole(messages[seq]).matchAll(pattern)].length, 0) : 0;
  byId("count").textContent = plural(found.length, "message") + (pattern ? ` with “${words}”, ${plural(hits, "hit")}` : "");
  const open = new Set([...byId("transcript").querySelectorAll("details[open]")].map((part) => part.dataset.turn));
  byId("transcript").replaceChildren(...groups.map(([turn, group, all], index) => {
    const show = (seq) => message(seq, ...placeOf(seq), contentOf(messages[seq], LONG, pattern));
    const part = folded(titleOf(turn, group, all, placeOf), () => (pattern ? make("div", {}, ...group.map(show)) : inPages(group, show)),
      Boolean(pattern) || index === groups.length - 1 || open.has(String(turn)));
    if (!pattern) part.dataset.turn = turn;
    return part;
  }));
}
