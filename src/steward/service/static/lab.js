// The form of the lab: sends what was filled in to the API, and shows what that says.
// Reports are framed documents without scripts; they are made as tall as they are.
(() => {
  const ADDRESS = "/api/v1/lab/comparisons";
  const MOST_POLICIES = 12;

  const asked = (form) => {
    const fields = new FormData(form);
    const example = fields.get("source") === "example";
    fields.delete("source");
    if (!fields.get("gpus")) fields.delete("gpus");
    if (!example) return { body: fields };
    const numbers = Object.fromEntries(
      ["gpus", "gpus_per_node", "seed"].filter((name) => fields.get(name)).map((name) => [name, Number(fields.get(name))]),
    );
    const rest = { trace: "example", policies: fields.getAll("policies"), placement: fields.get("placement") };
    return { body: JSON.stringify({ ...rest, ...numbers }), type: "application/json" };
  };

  const refuse = (form, problem, hint) => {
    const notice = form.querySelector(".st-refused");
    notice.hidden = !problem;
    notice.textContent = [problem, hint].filter(Boolean).join(". ");
    if (problem) notice.scrollIntoView({ block: "nearest" });
  };

  const wrong = (form) => {
    const file = form.elements.trace.files[0];
    const most = Number(form.elements.trace.dataset.most);
    if (form.elements.source.value === "file" && !file) return "Choose a file first, or take the example";
    if (form.elements.source.value === "file" && file.size > most) {
      return `${file.name} has ${(file.size / 2 ** 20).toFixed(1)} MiB; ${(most / 2 ** 20).toFixed(0)} MiB are taken here`;
    }
    const chosen = form.querySelectorAll("[name=policies]:checked").length;
    if (!chosen || chosen > MOST_POLICIES) return `Choose 1 to ${MOST_POLICIES} policies; now it is ${chosen}`;
    const bad = [...form.elements].find((each) => !each.validity.valid);
    return bad ? `${bad.closest("label")?.innerText.split("\n")[0] ?? bad.name}: ${bad.validationMessage}` : "";
  };

  // Browsers do not send a file that was changed since it was chosen; it has to be chosen again,
  // and choosing the same name again is only noticed where none is chosen.
  const changed = async (form) => {
    const file = form.elements.source.value === "file" && form.elements.trace.files[0];
    try {
      if (file) await file.slice(0, 1).arrayBuffer();
    } catch {
      form.elements.trace.value = "";
      return `${file.name} was changed, moved or removed since it was chosen: choose it again`;
    }
    return "";
  };

  const send = async (form) => {
    const problem = wrong(form) || (await changed(form));
    refuse(form, problem);
    if (problem) return;
    const button = form.querySelector(".st-run");
    const said = form.querySelector(".st-sent");
    const { body, type } = asked(form);
    const request = new XMLHttpRequest();
    const over = (text) => {
      button.disabled = false;
      said.textContent = text;
    };
    request.open("POST", ADDRESS);
    if (type) request.setRequestHeader("Content-Type", type);
    request.upload.onprogress = (event) => {
      const share = event.lengthComputable ? ` ${Math.round((100 * event.loaded) / event.total)} %` : "";
      said.textContent = `Sending${share}`;
    };
    request.onerror = () => {
      over("");
      refuse(form, "The trace could not be sent: the service did not answer");
    };
    request.onabort = () => over("");
    request.onload = () => {
      over("");
      let answer = {};
      try {
        answer = JSON.parse(request.responseText);
      } catch {
        answer = { error: { problem: `The service answered ${request.status}` } };
      }
      if (request.status === 202) {
        history.replaceState(null, "", `/lab?run=${answer.id}`);
        emitEvent("lab_started", answer.id);
        document.querySelector(".st-lab-result")?.scrollIntoView({ behavior: "smooth", block: "start" });
      } else {
        refuse(form, answer.error?.problem, answer.error?.hint);
      }
    };
    button.disabled = true;
    said.textContent = "Sending";
    request.send(body);
  };

  const name = (form) => {
    const chosen = [...form.querySelectorAll("[name=policies]:checked")].map((each) => each.value);
    form.querySelector(".st-chosen").textContent = chosen.length > 6 ? `${chosen.length} chosen` : chosen.join(", ");
  };

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form.st-lab")) return;
    event.preventDefault();
    send(event.target);
  });
  document.addEventListener("change", (event) => {
    const form = event.target.closest?.("form.st-lab");
    if (!form) return;
    if (event.target.name === "trace" && event.target.files.length) form.elements.source.value = "file";
    name(form);
    refuse(form, "");
  });

  // -- the report in its frame ----------------------------------------------------------------
  const COLOURS = { paper: "card", ink: "text", quiet: "quiet", rule: "edge", card: "raised" };

  const insideOf = (frame) => frame.contentDocument?.documentElement;

  const paint = (frame) => {
    const inside = insideOf(frame);
    if (!inside) return; // a frame that is loading has no document yet: `load` paints it
    const ours = getComputedStyle(document.body);
    const dark = document.body.classList.contains("body--dark");
    inside.style.colorScheme = dark ? "dark" : "light"; // ours, which need not be the system's
    for (const [theirs, name] of Object.entries(COLOURS)) {
      inside.style.setProperty(`--${theirs}`, ours.getPropertyValue(`--st-${name}`));
    }
    inside.style.fontSize = "15px";
    for (const sheet of frame.contentDocument.styleSheets) {
      for (const rule of sheet.cssRules) {
        if (!rule.media) continue;
        rule.scheme ??= rule.media.mediaText.includes("prefers-color-scheme: dark");
        if (rule.scheme) rule.media.mediaText = dark ? "all" : "not all";
      }
    }
  };

  new MutationObserver(() => document.querySelectorAll("iframe.st-report").forEach(paint)).observe(
    document.body,
    { attributeFilter: ["class"] },
  );
  document.addEventListener(
    "load",
    (event) => {
      const frame = event.target;
      if (!frame.matches?.("iframe.st-report") || !insideOf(frame)) return;
      paint(frame);
      const fit = () => {
        const inside = insideOf(frame); // none while the next report is loading
        if (inside) frame.style.height = `${inside.scrollHeight}px`;
      };
      new ResizeObserver(fit).observe(frame.contentDocument.body);
      fit();
    },
    true, // frames do not bubble
  );
})();
