// One lane per kind of event, under the slider, on the slider's scale.

const LANE_PX = 18;
const UNLISTED = new Set(['pickup', 'help']); // too many to be told apart, and no trouble
const THUMB_PX = 16; // of the slider: its middle runs from half a thumb to half a thumb

class Timeline {
  constructor(replay, parts, seek) {
    this.replay = replay;
    this.parts = parts;
    this.lanes = replay.kinds.filter((kind) => !UNLISTED.has(kind.name) && (kind.events.length || kind.name === 'collision'));
    for (const lane of this.lanes) {
      const row = document.createElement('div');
      const count = document.createElement('b');
      count.textContent = formatNumber(lane.total);
      row.append(`${plural(lane.label)} `, count);
      row.dataset.kind = lane.name;
      parts.labels.append(row);
    }
    parts.scrub.max = String(replay.steps);
    parts.scrub.addEventListener('input', () => seek(Number(parts.scrub.value)));
    const pick = (event) => {
      if (event.buttons !== 1) return;
      const box = parts.marks.getBoundingClientRect();
      const share = (event.clientX - box.left - THUMB_PX / 2) / (box.width - THUMB_PX);
      seek(Math.round(Math.min(Math.max(share, 0), 1) * replay.steps));
    };
    parts.marks.addEventListener('pointerdown', (event) => {
      parts.marks.setPointerCapture(event.pointerId);
      pick(event);
    });
    parts.marks.addEventListener('pointermove', pick);
  }

  position(step) {
    return THUMB_PX / 2 + step / Math.max(this.replay.steps, 1) * (this.parts.marks.clientWidth - THUMB_PX);
  }

  draw(theme, ratio) {
    const { marks } = this.parts;
    const width = marks.clientWidth;
    const height = this.lanes.length * LANE_PX;
    marks.style.height = `${height}px`;
    marks.width = Math.round(width * ratio);
    marks.height = Math.round(height * ratio);
    const c = marks.getContext('2d');
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    const counts = this.position(this.replay.header.warm_up_steps);
    c.fillStyle = theme.grid;
    if (this.replay.header.warm_up_steps) c.fillRect(THUMB_PX / 2, 0, counts - THUMB_PX / 2, height);
    this.lanes.forEach((lane, number) => {
      const middle = number * LANE_PX + LANE_PX / 2;
      c.fillStyle = theme.edge;
      c.fillRect(THUMB_PX / 2, middle - 0.5, width - THUMB_PX, 1);
      if (lane.name === 'delivery') this.drawBars(c, lane, middle, theme);
      else this.drawSigns(c, lane, middle, theme);
    });
  }

  /** One bar per two pixels, as high as there are many. */
  drawBars(c, lane, middle, theme) {
    const columns = new Map();
    for (const event of lane.events) {
      const column = Math.floor(this.position(this.replay.arrays.event_step[event]) / 2);
      columns.set(column, (columns.get(column) || 0) + this.replay.robotsOf(event).length);
    }
    const most = Math.max(...columns.values());
    c.fillStyle = theme.chart;
    for (const [column, count] of columns) {
      const height = (LANE_PX - 4) * (0.35 + 0.65 * count / most);
      c.fillRect(column * 2, middle - height / 2, 1.6, height);
    }
  }

  /** One sign per eight pixels; a number beside it would not fit, the label has the sum. */
  drawSigns(c, lane, middle, theme) {
    let last = -Infinity;
    for (const event of lane.events) {
      const x = this.position(this.replay.arrays.event_step[event]);
      if (x - last < 8) continue;
      drawSign(c, lane.name, x, middle, 4, theme);
      last = x;
    }
  }

  move(time) {
    const { scrub, cursor } = this.parts;
    cursor.style.transform = `translateX(${this.position(time) - 0.75}px)`;
    scrub.value = String(Math.floor(time));
    scrub.setAttribute('aria-valuetext', `step ${Math.floor(time)} of ${this.replay.steps}`);
  }

  /** The step of the next alarming event after, or before, a step; -1 for none. */
  alarm(step, direction) {
    const { event_step: steps, event_kind: kinds } = this.replay.arrays;
    let found = -1;
    for (let event = 0; event < steps.length; event++) {
      if (!isAlarm(this.replay.kinds[kinds[event]].name)) continue;
      if (direction > 0 && steps[event] > step) return steps[event];
      if (direction < 0 && steps[event] < step) found = steps[event];
    }
    return found;
  }
}

const PLURALS = { delivery: 'Deliveries', collision: 'Collisions', despawn: 'Despawns', respawn: 'Respawns', deadlock: 'Deadlocks', livelock: 'Livelocks' };

function plural(label) {
  return PLURALS[label] || label;
}

/** Whole numbers as they are, others with one decimal place. */
function formatNumber(value) {
  return Number.isInteger(value) ? String(value) : value.toFixed(1);
}
