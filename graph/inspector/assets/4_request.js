// One request: exactly what the model was sent, and what it answered.

/** What a request took; the provider's figures, or our count of its size. */
const figuresOf = (one) => [
  [one.real ? "tokens by the provider" : "tokens, counted", number(one.tokens)],
  ["read from the cache", one.cached ? `${number(one.cached)} (${share(one.cached, one.tokens)})` : one.real ? "0" : ""],
  ["written to the cache", number(one.cache_write || null)], ["answer", number(one.output || null)],
  ["trigger", number(one.trigger)], ["limit", number(one.limit)], ["written (UTC)", one.at.slice(0, 19).replace("T", " ")],
];

/** Why a message is in the request: by its look and in words. */
function noteOf(seq, earlier) {
  const { messages, attempts } = state.data;
  if (messages[seq].summary) {
    const made = attempts.findIndex((one) => one.summary === seq);
    return ["come", made < 0 ? "" : link(made, `summary of compaction ${made + 1}`)];
  }
  const cut = attempts.findIndex((one) => one.clipped.some((pair) => pair[1] === seq));
  if (cut >= 0) return ["cut", link(cut, `shortened at compaction ${cut + 1}`)];
  return earlier && !earlier.has(seq) ? ["view", "new in this request"] : ["view", ""];
}

/** A link to an attempt. It is followed here, because in a frame of a notebook the address is not that of the page. */
const link = (index, words) => make("a", { href: `#${state.data.attempts[index].row.compaction_id}`,
  onclick: (event) => { event.preventDefault(); choose(index, true); } }, words);

function requested(at) {
  const one = state.data.requests[at], before = state.data.requests[at - 1], sent = numbersOf(one.sent);
  const earlier = before && new Set(numbersOf(before.sent));
  const step = (to, words) => make("button", { type: "button", disabled: !state.data.requests[to], onclick: () => ask(to) }, words);
  return [
    make("p", { class: "tools" }, step(at - 1, "← Request before"), step(at + 1, "Next request →")),
    make("dl", { class: "figures" }, ...figures(figuresOf(one))),
    one.fixed ? make("p", { class: "quiet" }, `In front of the messages: system prompt and tools, about ${plural(one.fixed, "token")}. The agent holds them; the thread does not.`) : null,
    make("h3", {}, `Sent: ${plural(sent.length, "message")}`),
    inPages(sent, (seq) => message(seq, ...noteOf(seq, earlier), contentOf(state.data.messages[seq], SHORT * 2))),
    make("h3", {}, one.answered ? "Answer of the model" : "The call failed: there is no answer"),
    one.answer === null ? null : message(one.answer, "come"),
  ].filter(Boolean);
}

/** Open a request. */
function ask(at, go = true) {
  const one = state.data.requests[at];
  if (!one) return;
  if (go) remembered(() => history.replaceState(null, "", `#request-${at + 1}`));
  state.asked = at;
  byId("asked").hidden = false;
  byId("request").textContent = `Request ${number(at + 1)} of ${number(state.data.requests.length)}, turn ${number(one.turn)}`;
  byId("sent").replaceChildren(...requested(at));
  chart();
  if (!go) return;
  byId("request").focus({ preventScroll: true });
  byId("asked").scrollIntoView({ block: "nearest" });
}
