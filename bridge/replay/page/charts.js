// The strip of figures: a number for now, and its course over the episode.

class KpiStrip {
  constructor(replay, parent, seek) {
    this.replay = replay;
    const { step_s: stepS } = replay.header;
    // A tenth of the recording, in whole steps: smooth enough to read, short enough to show a jam.
    const window = Math.max(Math.round(replay.steps / 10), 1);
    const span = `mean of ${formatDuration(window * stepS)}`;
    const rate = (total, perS) => Float64Array.from(total, (value, t) => {
      const start = Math.max(t - window, 0);
      return t === 0 ? 0 : (value - total[start]) / ((t - start) * stepS) * perS;
    });
    const perHour = (t) => (t ? replay.since(replay.deliveries, t) * 3600 / ((t - replay.start(t)) * stepS) : 0);
    const from = replay.header.warm_up_steps ? 'since the warm-up' : 'so far';
    const loads = (t) => replay.since(replay.deliveries, t);
    this.kpis = [
      {
        id: 'rate', name: `Deliveries, mean ${from}`, line: rate(replay.deliveries, 3600), scale: (most) => `max ${most}/h, ${span}`,
        value: (t) => perHour(t).toFixed(perHour(t) < 10 ? 1 : 0), unit: ' /h', extra: (t) => ` ${loads(t)} ${loads(t) === 1 ? 'load' : 'loads'}`,
      },
      {
        id: 'collisions', name: `Collisions ${from}`, line: replay.collisions, scale: (most) => `total ${most}`,
        value: (t) => formatNumber(replay.since(replay.collisions, t)), unit: '', extra: () => '',
      },
      {
        id: 'blocked', name: `Blocked moves ${from}`, line: rate(replay.refusals, 60), scale: (most) => `max ${most}/min, ${span}`,
        value: (t) => String(replay.since(replay.refusals, t)), unit: '', extra: () => '',
      },
      {
        id: 'robots', name: 'Robots on the floor; shaded: loaded', line: replay.onFloor, second: replay.loads, scale: (most) => `max ${most}`,
        value: (t) => String(replay.onFloor[t]), unit: '', extra: (t) => ` ${replay.loads[t]} loaded`,
      },
    ];
    for (const kpi of this.kpis) this.build(kpi, parent, seek);
  }

  build(kpi, parent, seek) {
    const make = (tag, name, inside) => {
      const element = document.createElement(tag);
      element.className = name;
      inside.append(element);
      return element;
    };
    const row = make('div', 'kpi', parent);
    const text = make('div', '', row);
    const value = make('div', 'value', text);
    kpi.number = make('span', '', value);
    kpi.number.id = `kpi-${kpi.id}`;
    const unit = make('small', '', value);
    unit.textContent = kpi.unit;
    kpi.more = make('small', '', value);
    make('div', 'name', text).textContent = kpi.name;
    const chart = make('div', 'chart', row);
    kpi.canvas = make('canvas', '', chart);
    kpi.top = make('span', 'top', chart);
    kpi.cursor = make('div', 'cursor', chart);
    kpi.most = kpi.line.reduce((most, one) => Math.max(most, one), 0);
    kpi.top.textContent = kpi.scale(formatNumber(kpi.most >= 10 ? Math.round(kpi.most) : kpi.most));
    const pick = (event) => {
      if (event.buttons !== 1) return;
      const box = chart.getBoundingClientRect();
      seek(Math.round(Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * this.replay.steps));
    };
    chart.addEventListener('pointerdown', pick);
    chart.addEventListener('pointermove', pick);
  }

  draw(theme, ratio) {
    for (const { canvas, line, second, most } of this.kpis) {
      const width = canvas.clientWidth;
      const height = canvas.clientHeight;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      const c = canvas.getContext('2d');
      c.setTransform(ratio, 0, 0, ratio, 0, 0);
      const x = (t) => t / Math.max(this.replay.steps, 1) * width;
      c.fillStyle = theme.grid;
      c.fillRect(0, 0, x(Math.min(this.replay.header.warm_up_steps, this.replay.steps)), height);
      const y = (value) => height - 2 - (most ? value / most : 0) * (height - 16);
      const trace = (values) => {
        c.beginPath();
        // A line of more points than pixels shows the largest of each pixel.
        const stride = Math.max(Math.floor(values.length / (2 * width)), 1);
        for (let t = 0; t < values.length; t += stride) {
          let value = values[t];
          for (let k = 1; k < stride && t + k < values.length; k++) value = Math.max(value, values[t + k]);
          c.lineTo(x(t), y(value));
        }
        c.lineTo(width, y(values[values.length - 1]));
      };
      const shade = (values) => {
        trace(values);
        c.lineTo(width, height);
        c.lineTo(0, height);
        c.fillStyle = theme['chart-fill'];
        c.fill();
      };
      shade(second || line);
      trace(line);
      c.strokeStyle = theme.chart;
      c.lineWidth = 1.5;
      c.stroke();
    }
  }

  move(time) {
    const share = time / Math.max(this.replay.steps, 1);
    for (const kpi of this.kpis) kpi.cursor.style.transform = `translateX(${share * (kpi.canvas.clientWidth - 1.5)}px)`;
  }

  show(t) {
    for (const kpi of this.kpis) {
      kpi.number.textContent = kpi.value(t);
      kpi.more.textContent = kpi.extra(t);
    }
  }
}

function formatDuration(seconds) {
  if (seconds < 60) return `${Number(seconds.toFixed(1))} s`;
  const whole = Math.floor(seconds);
  const pad = (number) => String(number).padStart(2, '0');
  const minutes = Math.floor(whole / 60) % 60;
  return whole < 3600 ? `${minutes}:${pad(whole % 60)} min` : `${Math.floor(whole / 3600)}:${pad(minutes)}:${pad(whole % 60)} h`;
}
