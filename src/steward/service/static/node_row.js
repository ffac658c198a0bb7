// One node of the heat map. A cell is [state, heat, owner, borrower]: heat counts fifths of busy
// time, owner and borrower are places in `tenants` (-1: nobody). The server sends a row again only
// when one of its cells changed; hovering and focus survive that.
const MARKS = { idle: "z", lent: "⇄", unknown: "?", failed: "✕" };
const WORDS = { idle: "held but idle", lent: "lent", unknown: "unknown", failed: "failed", free: "free" };

export default {
  template: `
    <div class="st-node" role="group" :aria-label="node">
      <a class="st-node-name" :href="'/nodes/' + encodeURIComponent(node)">{{ node }}</a>
      <span class="st-cells">
        <button v-for="(cell, at) in cells" :key="at" type="button" :class="look(cell)" :style="hues(cell)"
          :tabindex="at ? -1 : 0" :title="say(cell, at)" :aria-label="say(cell, at)"
          @click="$emit('pick', at)" @keydown.right="step($event, 1)" @keydown.left="step($event, -1)"
          ><b class="st-by-use">{{ mark(cell) }}</b><b class="st-by-owner">{{ initial(cell) }}</b></button>
      </span>
    </div>`,
  props: { node: String, names: Array, cells: Array, tenants: Array },
  methods: {
    look([state, heat]) {
      return ["st-gpu", `st-gpu-${state}`, `st-heat-${heat}`];
    },
    hues([, , owner, borrower]) {
      const hue = (at) => (at < 0 ? "var(--st-none)" : `var(--st-hue-${at % 8})`);
      return { "--own": hue(owner), "--other": hue(borrower < 0 ? owner : borrower) };
    },
    mark([state]) {
      return MARKS[state] ?? "";
    },
    initial(cell) {
      const [state, , owner] = cell;
      if (state === "failed" || state === "unknown" || state === "lent") return this.mark(cell);
      return owner < 0 ? "" : this.tenants[owner].slice(0, 1).toUpperCase();
    },
    say([state, heat, owner, borrower], at) {
      const use = WORDS[state] ?? `${Math.max(0, heat - 1) * 20} to ${heat * 20} % busy`;
      const who = owner < 0 ? "" : `, ${this.tenants[owner]}`;
      const to = borrower < 0 ? "" : `, used by ${this.tenants[borrower]}`;
      return `${this.names[at]}: ${use}${who}${to}`;
    },
    step(event, by) {
      const cells = [...event.target.parentElement.children];
      cells[cells.indexOf(event.target) + by]?.focus();
    },
  },
};
