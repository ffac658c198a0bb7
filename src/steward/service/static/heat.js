// A heat map on a canvas: a column per second (minute, hour), offset within it upwards. A cell is a
// byte: 0..254 from low to high, 255 is a gap. Columns are picked by dragging, or by arrow keys.
const GAP = 255;

export default {
  template: `
    <div class="st-rhythm">
      <div class="st-rhythm-map">
        <span class="st-rhythm-y"><i>{{ top }}</i><i>0</i></span>
        <div class="st-rhythm-box">
          <canvas ref="canvas" tabindex="0" role="img" :aria-label="label" @pointerdown="begin" @pointermove="move"
            @pointerup="end" @pointercancel="drag = null" @pointerleave="told = ''" @keydown="key"></canvas>
          <i class="st-rhythm-picked" v-if="shown" :style="shown"></i>
        </div>
      </div>
      <div class="st-rhythm-x"><i v-for="each in marks">{{ each }}</i></div>
      <div class="st-rhythm-told">{{ told }}</div>
    </div>`,
  props: { cells: String, columns: Number, rows: Number, from_s: Number, column_s: Number, row_s: Number,
           low: Number, high: Number, unit: String, label: String, picked: Array },
  data: () => ({ told: "", drag: null }),
  computed: {
    top() {
      return this.column_s < 2 ? "1 s" : this.column_s < 100 ? "60 s" : this.column_s < 5000 ? "60 min" : "24 h";
    },
    marks() {
      return (this.columns ? [0, 0.25, 0.5, 0.75, 1] : []).map((part) => this.clock(this.from_s + part * this.columns * this.column_s, false));
    },
    shown() {
      const range = this.drag ?? this.picked;
      if (!range || !this.columns) return null;
      const [a, b] = [Math.min(...range), Math.max(...range)];
      return { left: `${(100 * a) / this.columns}%`, width: `${(100 * (b + 1 - a)) / this.columns}%` };
    },
  },
  watch: { cells() { this.draw(); } },
  mounted() {
    this.draw();
    this.dark = new MutationObserver(() => this.draw());
    this.dark.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  },
  unmounted() {
    this.dark.disconnect();
  },
  methods: {
    clock(t_s, fine) {
      const text = new Date(1000 * t_s).toISOString();
      return this.column_s > 1000 ? text.slice(5, 16).replace("T", " ") : text.slice(11, fine && this.row_s < 1 ? 21 : 19);
    },
    ramp() {
      // The browser resolves light-dark() only in a real colour, not in a custom property.
      const probe = document.createElement("i");
      this.$el.append(probe);
      const stops = [0, 1, 2, 3, 4, 5].map((at) => {
        probe.style.color = `var(--st-heat-${at})`;
        return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
      });
      probe.remove();
      return Array.from({ length: GAP }, (_, byte) => {
        const at = Math.min(4.999, (5 * byte) / (GAP - 1));
        const [a, b] = [stops[Math.floor(at)], stops[Math.floor(at) + 1]];
        return a.map((each, i) => each + (at % 1) * (b[i] - each));
      });
    },
    draw() {
      const canvas = this.$refs.canvas;
      if (!canvas || !this.columns) return;
      this.bytes = Uint8Array.from(atob(this.cells), (each) => each.charCodeAt(0));
      [canvas.width, canvas.height] = [this.columns, this.rows];
      const context = canvas.getContext("2d");
      const image = context.createImageData(this.columns, this.rows);
      const ramp = this.ramp();
      this.bytes.forEach((byte, at) => {
        if (byte === GAP) return; // left transparent: the hatching below shows through
        const [column, row] = [Math.floor(at / this.rows), at % this.rows];
        image.data.set([...ramp[byte], 255], 4 * ((this.rows - 1 - row) * this.columns + column));
      });
      context.putImageData(image, 0, 0);
    },
    place(event) {
      const box = this.$refs.canvas.getBoundingClientRect();
      const clip = (part, count) => Math.min(count - 1, Math.max(0, Math.floor(part * count)));
      return [clip((event.clientX - box.left) / box.width, this.columns), clip((box.bottom - event.clientY) / box.height, this.rows)];
    },
    tell(column, row) {
      const byte = this.bytes[column * this.rows + row];
      const when = this.clock(this.from_s + column * this.column_s + row * this.row_s + 1e-6, true);
      const value = this.low + (byte / (GAP - 1)) * (this.high - this.low);
      const digits = Math.abs(this.high) < 10 ? 2 : 0;
      this.told = byte === GAP ? `${when}: no sample` : `${when}: ${value.toFixed(digits)} ${this.unit}`;
    },
    begin(event) {
      event.target.setPointerCapture(event.pointerId);
      const [column] = this.place(event);
      this.drag = [column, column];
    },
    move(event) {
      const [column, row] = this.place(event);
      if (this.drag) this.drag = [this.drag[0], column];
      this.tell(column, row);
    },
    end() {
      if (this.drag) this.pick(...this.drag);
      this.drag = null;
    },
    key(event) {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") this.$emit("pick", null);
      if (!by) return;
      event.preventDefault();
      const [a, b] = this.picked ?? [this.columns - 1, this.columns - 1];
      const to = Math.min(this.columns - 1, Math.max(0, b + by));
      this.pick(event.shiftKey ? a : to, to);
    },
    pick(a, b) {
      this.$emit("pick", [Math.min(a, b), Math.max(a, b)]);
    },
  },
};
