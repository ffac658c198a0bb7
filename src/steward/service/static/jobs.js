// The form of a new job: the API turns what was filled in into a submission or says what is wrong
// with which field. And logs: the end stays in sight unless a person scrolled away from it.
(() => {
  const ADDRESS = "/api/v1/jobs";
  const MOST_BYTES = 4 * 2 ** 20;
  const TEXTS = ["name", "gpus", "slots", "cpus", "memory", "time", "array", "dependency", "priority", "folder"];
  let sent = { body: "", token: "" };

  const kindOf = (form) => form.elements.kind.value;

  const filled = (form) => {
    const text = (name) => form.elements[name]?.value.trim() ?? "";
    const body = Object.fromEntries(TEXTS.map((name) => [name, text(name)]));
    const what = kindOf(form);
    body[what] = what === "script" ? form.elements.script.value : text("command");
    return { ...body, hold: form.elements.hold.checked, requeue: form.elements.requeue.checked };
  };

  // The same content sent again is the same job; anything else is another one.
  const tokenFor = (body) => {
    if (sent.body !== body) {
      const bytes = crypto.getRandomValues(new Uint8Array(16));
      sent = { body, token: [...bytes].map((each) => each.toString(16).padStart(2, "0")).join("") };
    }
    return sent.token;
  };

  const post = async (path, body) => {
    let answer;
    try {
      answer = await fetch(ADDRESS + path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    } catch {
      return { error: { problem: "The service did not answer", hint: "nothing is lost: submit it again, it stays one job" } };
    }
    try {
      return await answer.json();
    } catch {
      return { error: { problem: `The service answered ${answer.status}` } };
    }
  };

  const clear = (form) => {
    form.querySelectorAll(".st-wrong, .st-refused, .st-dry").forEach((each) => (each.hidden = true));
    form.querySelectorAll("[aria-invalid]").forEach((each) => each.removeAttribute("aria-invalid"));
  };

  const line = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });

  const refuse = (form, { problem = "", hint = "", where = "" }) => {
    const name = where.replace(/^body\./, "");
    const place = form.querySelector(`.st-wrong[data-of="${CSS.escape(name)}"]`);
    const box = form.elements[name];
    const text = [problem, hint].filter(Boolean).map((each) => each[0].toUpperCase() + each.slice(1)).join(". ");
    if (place && box) {
      place.textContent = text;
      place.hidden = false;
      box.setAttribute("aria-invalid", "true");
      box.focus();
      return;
    }
    const notice = form.querySelector(".st-refused");
    notice.textContent = text;
    notice.hidden = false;
    notice.scrollIntoView({ block: "nearest" });
  };

  const showDry = (form, draft) => {
    const { body } = draft;
    const need = `${draft.asks_for} ${draft.on_slots ? "CPU slot" : "GPU"}${draft.asks_for === 1 ? "" : "s"}`;
    const facts = [
      `as ${draft.account}, tenant ${draft.tenant}, on ${need}`,
      draft.tasks > 1 ? `${draft.tasks} tasks` : "",
      body.time_limit_s ? `at most ${body.time_limit_s} s` : "without a time limit",
      body.memory_bytes ? `${(body.memory_bytes / 2 ** 30).toFixed(1)} GiB of memory` : "",
      body.dependencies.map((each) => `${each.when}:${each.job}`).join(", "),
      body.hold ? "held until it is released" : "",
    ];
    const said = form.querySelector(".st-dry");
    const command = Object.assign(line("pre", `cd ${body.folder}\n${body.script || draft.would_run}`), { className: "st-pre" });
    said.replaceChildren(line("b", `Would run “${draft.name}”`), command, line("p", `${facts.filter(Boolean).join("; ")}.`));
    if (draft.ignored.length) said.append(line("p", `Without meaning on one machine: ${draft.ignored.join(", ")}.`));
    said.hidden = false;
    said.scrollIntoView({ block: "nearest" });
  };

  const spanOf = (seconds) => {
    const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([each]) => seconds >= 2 * each) ?? [1, "s"];
    return `${(seconds / size).toFixed(seconds / size < 10 ? 1 : 0)} ${unit}`;
  };

  // What jobs like the one being typed took. Silent where the form is not complete, or wrong.
  const expect = async (form) => {
    const place = form.querySelector(".st-expected");
    const asked = JSON.stringify(filled(form));
    const draft = await post("/draft", filled(form));
    if (asked !== JSON.stringify(filled(form))) return; // typed on meanwhile: its own answer comes
    const found = draft.error ? null : draft.expected.find((each) => each.quantity === "run.left_s");
    place.hidden = !found;
    if (found) place.textContent = `Jobs like it ran ${spanOf(found.mid)}, four of five between ${spanOf(found.low)} and ${spanOf(found.high)} (${found.basis}).`;
  };
  const soon = new WeakMap();

  const send = async (form, dry) => {
    clear(form);
    const buttons = form.querySelectorAll("button");
    const said = form.querySelector(".st-sent");
    buttons.forEach((each) => (each.disabled = true));
    said.textContent = dry ? "Checking" : "Submitting";
    try {
      const draft = await post("/draft", filled(form));
      if (draft.error) return refuse(form, draft.error);
      if (dry) return showDry(form, draft);
      const made = await post("", { ...draft.body, token: tokenFor(JSON.stringify(draft.body)) });
      if (made.error) return refuse(form, made.error);
      location.assign(`/jobs/${made.id}`);
    } finally {
      buttons.forEach((each) => (each.disabled = false));
      said.textContent = "";
    }
  };

  const read = async (form, file) => {
    form.elements.kind.value = "script";
    clear(form);
    if (file.size > MOST_BYTES) return refuse(form, { where: "script", problem: `${file.name} is larger than 4 MiB` });
    try {
      form.elements.script.value = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      refuse(form, { where: "script", problem: `${file.name} is no UTF-8 text`, hint: "a program is run by a command" });
    }
  };

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form.st-submit")) return;
    event.preventDefault();
    send(event.target, event.submitter?.value === "dry");
  });
  document.addEventListener("change", (event) => {
    const form = event.target.closest?.("form.st-submit");
    if (form && event.target.name === "file" && event.target.files.length) read(form, event.target.files[0]);
  });
  document.addEventListener("input", (event) => {
    const form = event.target.closest?.("form.st-submit");
    if (!form) return;
    if (["command", "script"].includes(event.target.name)) form.elements.kind.value = event.target.name;
    clearTimeout(soon.get(form));
    soon.set(form, setTimeout(() => expect(form), 600));
  });

  // -- logs -----------------------------------------------------------------------------------
  const away = new WeakSet();
  const atEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < 30;
  document.addEventListener(
    "scroll",
    (event) => {
      if (!event.target.matches?.(".st-log")) return;
      if (atEnd(event.target)) away.delete(event.target);
      else away.add(event.target);
    },
    true, // it does not bubble
  );
  new MutationObserver((changes) => {
    const logs = new Set(changes.map(({ target }) => (target.parentElement ?? target).closest?.(".st-log") ?? target.closest?.(".st-log")));
    logs.forEach((log) => log && !away.has(log) && (log.scrollTop = log.scrollHeight));
  }).observe(document.body, { childList: true, characterData: true, subtree: true });
})();
