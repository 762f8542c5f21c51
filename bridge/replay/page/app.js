// Puts the page together: one replay, its layers and panels, and what the user does.

const byId = (id) => document.getElementById(id);

class App {
  constructor(replay) {
    this.replay = replay;
    this.camera = new Camera(replay);
    this.routes = new Routes(replay);
    this.floor = new FloorLayer(byId('floor'), replay, this.camera);
    this.fleet = new FleetLayer(byId('fleet'), replay, this.camera, this.routes);
    this.player = new Player(replay, (time) => this.draw(time));
    const seek = (step) => { this.player.play(false); this.player.seek(step); };
    this.timeline = new Timeline(replay, { labels: byId('lane-labels'), marks: byId('lane-marks'), cursor: byId('lane-cursor'), scrub: byId('scrub') }, seek);
    this.kpis = new KpiStrip(replay, byId('kpis'), seek);
    this.inspector = new Inspector(replay, this.routes, byId('inspector'), seek, () => this.select(-1));
    this.selected = -1;
    this.following = false;
    this.showTargets = replay.count <= 24;
    this.shown = '';
    this.describe();
    this.select(-1);
    const reduced = matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.setTheme(matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
    listen(this, seek);
    new ResizeObserver(() => this.resize()).observe(byId('stage'));
    this.resize();
    this.player.play(!reduced);
    this.obey(location.hash);
  }

  /** Texts that do not change. */
  describe() {
    const { header } = this.replay;
    byId('scenario').textContent = header.scenario;
    const drive = { grid: 'cell by cell', grid_heading: 'cell by cell with quarter turns', differential: 'differential drive' }[header.drive] || header.drive;
    const robots = `${this.replay.count} ${this.replay.count === 1 ? 'robot' : 'robots'}`;
    const floor = `${header.width} \u00d7 ${header.height} cells of ${header.cell_size_m}\u00a0m`;
    byId('about').textContent = [header.policy, `${robots}, ${drive}`, floor, `seed ${header.seed}`].filter(Boolean).join(' \u00b7 ');
    byId('steps').textContent = String(header.steps);
    byId('duration').textContent = formatDuration(header.steps * header.step_s);
    for (const speed of SPEEDS) byId('speed').add(new Option(`${speed}\u00d7`, String(speed)));
    const select = byId('robot-select');
    select.add(new Option('none', '-1'));
    header.roles.forEach((role, index) => {
      const group = document.createElement('optgroup');
      group.label = role.name;
      this.replay.robots.forEach((robot, number) => { if (robot.role === index) group.append(new Option(robot.name, String(number))); });
      select.append(group);
    });
    byId('result').hidden = !header.figures.length;
    for (const { name, meaning, value } of header.figures) {
      const row = byId('figures').insertRow();
      row.title = meaning;
      row.insertCell().textContent = name.replaceAll('_', ' ');
      row.insertCell().textContent = Number.isInteger(value) ? String(value) : value.toPrecision(4);
    }
    buildKeys(byId('keys'));
  }

  get ratio() { return window.devicePixelRatio || 1; }

  resize() {
    const stage = byId('stage');
    for (const canvas of [byId('floor'), byId('fleet')]) {
      canvas.width = Math.round(stage.clientWidth * this.ratio);
      canvas.height = Math.round(stage.clientHeight * this.ratio);
    }
    this.camera.resize(stage.clientWidth, stage.clientHeight);
    this.drawStill();
    // A canvas that was resized is empty: it must not be seen before the next frame fills it.
    this.draw(this.player.time);
  }

  setTheme(name) {
    document.documentElement.dataset.theme = name;
    const style = getComputedStyle(document.documentElement);
    this.theme = { name };
    for (const key of THEME_KEYS) this.theme[key] = style.getPropertyValue(`--${key}`).trim();
    this.drawStill();
  }

  /** What changes with size and colours only. */
  drawStill() {
    this.timeline.draw(this.theme, this.ratio);
    this.kpis.draw(this.theme, this.ratio);
    buildLegend(this.replay, byId('legend-items'), this.theme, this.ratio);
    this.floor.drawn = '';
    this.shown = '';
    this.player.refresh();
  }

  select(robot) {
    this.selected = robot;
    this.inspector.select(robot);
    byId('robot-select').value = String(robot);
    if (robot < 0) this.following = false;
    else {
      this.fleet.place(this.player.time);
      if (this.fleet.shown[robot] && !this.fleet.inView(robot)) this.camera.moveTo(this.fleet.x[robot], this.fleet.y[robot]);
    }
    this.shown = '';
    this.player.refresh();
  }

  draw(time) {
    const t = Math.floor(time);
    this.fleet.place(time);
    if (this.following && this.selected >= 0 && this.fleet.shown[this.selected]) {
      this.camera.moveTo(this.fleet.x[this.selected], this.fleet.y[this.selected]);
    }
    this.floor.draw(this.theme, this.ratio);
    this.fleet.draw(time, this.selected, this.showTargets, this.theme, this.ratio);
    this.timeline.move(time);
    this.kpis.move(time);
    this.showScale();
    this.showControls();
    const key = `${t} ${this.selected}`;
    if (key === this.shown) return;
    this.shown = key;
    byId('step').textContent = String(t);
    byId('time').textContent = formatDuration(t * this.replay.header.step_s);
    this.kpis.show(t);
    this.inspector.show(t, this.theme, this.ratio);
  }

  showControls() {
    const { playing, speed } = this.player;
    const key = [playing, speed, this.following, this.showTargets, this.selected].join();
    if (key === this.controls) return;
    this.controls = key;
    byId('play').textContent = playing ? '\u275a\u275a Pause' : '\u25b6 Play';
    byId('speed').value = String(speed);
    byId('camera-follow').setAttribute('aria-pressed', String(this.following));
    byId('camera-follow').disabled = this.selected < 0;
    byId('targets').setAttribute('aria-pressed', String(this.showTargets));
  }

  /** A bar of a round number of metres. */
  showScale() {
    if (this.scaled === this.camera.scale) return;
    this.scaled = this.camera.scale;
    const metres = 90 / this.camera.scale;
    const power = 10 ** Math.floor(Math.log10(metres));
    const length = [5, 2, 1].find((factor) => factor * power <= metres) * power;
    byId('scale-bar').style.width = `${length * this.camera.scale}px`;
    byId('scale-text').textContent = `${length} m`;
  }

  /** Settings in the address: #step=120&robot=3&paused&speed=5&theme=dark&zoom=40&x=3&y=4&follow */
  obey(hash) {
    const wish = new URLSearchParams(hash.slice(1));
    const number = (key) => (wish.has(key) && Number.isFinite(Number(wish.get(key))) ? Number(wish.get(key)) : null);
    if (['light', 'dark'].includes(wish.get('theme'))) this.setTheme(wish.get('theme'));
    if (wish.has('robot')) {
      const named = this.replay.robots.findIndex((robot) => robot.name === wish.get('robot'));
      const robot = named >= 0 ? named : number('robot');
      if (Number.isInteger(robot) && robot >= 0 && robot < this.replay.count) this.select(robot);
    }
    if (number('speed') !== null && SPEEDS.includes(number('speed'))) this.player.speed = number('speed');
    if (number('zoom') !== null) this.camera.zoom(number('zoom') / this.camera.scale);
    if (number('x') !== null && number('y') !== null) this.camera.moveTo(number('x'), number('y'));
    if (wish.has('follow') && this.selected >= 0) this.following = true;
    if (wish.has('paused')) this.player.play(false);
    if (number('step') !== null) this.player.seek(Math.round(number('step')));
    this.player.refresh();
  }
}

const THEME_KEYS = [
  'page', 'panel', 'edge', 'ink', 'muted', 'accent', 'outside', 'floor', 'grid', 'rack', 'rack-edge', 'pickup', 'delivery',
  'parking', 'charger', 'station-ink', 'load', 'load-ink', 'halo', 'outline', 'alarm', 'route', 'beam', 'chart', 'chart-fill', 'refused',
  'zone', 'zone-edge', 'zone-ink',
];

/** Wire up mouse, touch, buttons and keys. */
function listen(app, seek) {
  const { player, camera, fleet } = app;
  const canvas = byId('fleet');
  const still = (action) => () => { action(); player.refresh(); };
  const toggleFollow = still(() => { if (app.selected >= 0) app.following = !app.following; });
  const toggleTargets = still(() => { app.showTargets = !app.showTargets; });
  const toggleTheme = () => app.setTheme(app.theme.name === 'dark' ? 'light' : 'dark');
  const fit = still(() => { app.following = false; camera.fit(); });
  const alarm = (direction) => {
    const step = app.timeline.alarm(player.step, direction);
    if (step >= 0) seek(step);
  };
  const neighbour = (by) => {
    const { count } = app.replay;
    app.select(app.selected < 0 ? (by > 0 ? 0 : count - 1) : (app.selected + by + count) % count);
  };
  const toggleKeys = () => (byId('keys').open ? byId('keys').close() : byId('keys').showModal());

  const click = (id, action) => byId(id).addEventListener('click', action);
  click('play', () => player.play(!player.playing));
  click('back', () => seek(player.step - 1));
  click('forward', () => seek(player.step + 1));
  click('previous-event', () => alarm(-1));
  click('next-event', () => alarm(1));
  click('targets', toggleTargets);
  click('camera-follow', toggleFollow);
  click('fit', fit);
  click('theme', toggleTheme);
  click('help', toggleKeys);
  byId('speed').addEventListener('change', (event) => { player.speed = Number(event.target.value); player.refresh(); });
  byId('robot-select').addEventListener('change', (event) => app.select(Number(event.target.value)));
  addEventListener('hashchange', () => app.obey(location.hash));

  const pointers = new Map();
  let travelled = 0;
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, event);
    travelled = 0;
  });
  canvas.addEventListener('pointermove', (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
    const others = [...pointers.values()].filter((other) => other.pointerId !== event.pointerId);
    const dx = event.clientX - last.clientX;
    const dy = event.clientY - last.clientY;
    travelled += Math.hypot(dx, dy);
    pointers.set(event.pointerId, event);
    if (travelled <= 3) return;
    if (others.length) { // two fingers: zoom by the change of their distance
      const span = (one) => Math.hypot(one.clientX - others[0].clientX, one.clientY - others[0].clientY);
      const box = canvas.getBoundingClientRect();
      camera.zoom(span(event) / Math.max(span(last), 1), (event.clientX + others[0].clientX) / 2 - box.left, (event.clientY + others[0].clientY) / 2 - box.top);
    } else {
      app.following = false;
      camera.pan(dx, dy);
    }
    player.refresh();
  });
  const release = (event) => {
    const clicked = pointers.delete(event.pointerId) && travelled <= 3 && event.type === 'pointerup';
    if (clicked) app.select(fleet.at(event.offsetX, event.offsetY));
  };
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', release);
  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 30 : 1;
    camera.zoom(Math.exp(-event.deltaY * lines * 0.0015), event.offsetX, event.offsetY);
    player.refresh();
  }, { passive: false });

  const keys = {
    ' ': () => player.play(!player.playing),
    ArrowLeft: (event) => seek(player.step - (event.shiftKey ? 10 : 1)),
    ArrowRight: (event) => seek(player.step + (event.shiftKey ? 10 : 1)),
    Home: () => seek(0),
    End: () => seek(app.replay.steps),
    '[': () => alarm(-1),
    ']': () => alarm(1),
    ',': () => player.changeSpeed(-1),
    '.': () => player.changeSpeed(1),
    '+': still(() => camera.zoom(1.25)),
    '=': still(() => camera.zoom(1.25)),
    '-': still(() => camera.zoom(0.8)),
    0: fit,
    f: toggleFollow,
    n: () => neighbour(1),
    p: () => neighbour(-1),
    Escape: () => app.select(-1),
    l: toggleTargets,
    t: toggleTheme,
    '?': toggleKeys,
  };
  addEventListener('keydown', (event) => {
    const { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || target.tagName === 'SELECT') return;
    if (byId('keys').open && event.key !== '?') return;
    // A button keeps the space bar for itself.
    if (event.key === ' ' && ['BUTTON', 'SUMMARY'].includes(target.tagName)) return;
    const action = keys[event.key] || keys[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action(event);
  });
}

function fail(error) {
  document.documentElement.dataset.state = 'failed';
  byId('notice').hidden = false;
  byId('notice').textContent = `The replay cannot be shown.\n${error.message}`;
}

inflate(byId('payload').textContent.trim()).then((bytes) => {
  const app = new App(new Replay(bytes));
  byId('payload').remove();
  byId('notice').hidden = true;
  document.documentElement.dataset.state = 'ready';
  window.agvReplay = app;
}).catch((error) => {
  fail(error);
  throw error;
});
