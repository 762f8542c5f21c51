// Marks that can be told apart without colour: outlines of roles, and signs of events.

// Okabe and Ito's colours, as in the simulator's pictures; the shape says the same.
const ROLE_COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#56b4e9', '#9467bd', '#78783c', '#5a5a5a'];
const ROLE_SHAPES = [
  null, // a circle
  polygon(4, Math.PI / 4, 1.16),
  polygon(3, Math.PI / 2, 1.3),
  polygon(6, 0, 1.08),
  polygon(4, 0, 1.2),
  polygon(5, Math.PI / 2, 1.12),
  star(),
  polygon(8, Math.PI / 8, 1.05),
];

function polygon(corners, turn, radius) {
  return Array.from({ length: corners }, (_, k) => {
    const angle = turn + k * 2 * Math.PI / corners;
    return [radius * Math.cos(angle), -radius * Math.sin(angle)];
  });
}

function star() {
  return Array.from({ length: 10 }, (_, k) => {
    const radius = k % 2 ? 0.72 : 1.3;
    const angle = Math.PI / 2 + k * Math.PI / 5;
    return [radius * Math.cos(angle), -radius * Math.sin(angle)];
  });
}

/** Corners of a rectangular footprint that faces right, in the circle of radius 1 around it; null for a disc. */
function rectangleOf(role) {
  if (!role.length_m) return null;
  const x = role.length_m / 2 / role.radius_m;
  const y = role.width_m / 2 / role.radius_m;
  return [[x, -y], [-x, -y], [-x, y], [x, y]];
}

/** Add the outline of a robot to the path: its footprint where that is a rectangle, else the shape of its role. */
function addBody(c, role, index, x, y, radius, heading) {
  const rectangle = rectangleOf(role);
  if (rectangle) {
    addTurned(c, rectangle, x, y, radius, heading);
    return;
  }
  const corners = ROLE_SHAPES[index % ROLE_SHAPES.length];
  if (!corners) {
    c.moveTo(x + radius, y);
    c.arc(x, y, radius, 0, 2 * Math.PI);
    return;
  }
  addTurned(c, corners, x, y, radius, 0);
}

/** Add a polygon to the path, turned counter-clockwise; y points down. */
function addTurned(c, corners, x, y, radius, angle) {
  const cos = Math.cos(angle) * radius;
  const sin = Math.sin(angle) * radius;
  corners.forEach(([dx, dy], k) => {
    const corner = [x + dx * cos + dy * sin, y + dy * cos - dx * sin];
    if (k) c.lineTo(...corner);
    else c.moveTo(...corner);
  });
  c.closePath();
}

const EVENT_SIGNS = {
  delivery: 'bar', pickup: 'bar', help: 'bar', collision: 'cross', despawn: 'down', respawn: 'up', deadlock: 'square', livelock: 'ring',
};

/** Draw the sign of a kind of event with its own outline. */
function drawSign(c, kind, x, y, radius, theme) {
  const sign = EVENT_SIGNS[kind] || 'diamond';
  c.strokeStyle = c.fillStyle = isAlarm(kind) ? theme.alarm : theme.ink;
  c.lineWidth = Math.max(radius * 0.42, 1.5);
  c.lineCap = 'round';
  c.beginPath();
  if (sign === 'cross') {
    c.moveTo(x - radius, y - radius);
    c.lineTo(x + radius, y + radius);
    c.moveTo(x + radius, y - radius);
    c.lineTo(x - radius, y + radius);
    c.stroke();
  } else if (sign === 'bar') {
    c.moveTo(x, y - radius);
    c.lineTo(x, y + radius);
    c.stroke();
  } else if (sign === 'ring') {
    c.arc(x, y, radius * 0.85, 0, 2 * Math.PI);
    c.stroke();
  } else {
    const corners = {
      down: [[-1, -0.8], [1, -0.8], [0, 1]], up: [[-1, 0.8], [1, 0.8], [0, -1]],
      square: [[-0.85, -0.85], [0.85, -0.85], [0.85, 0.85], [-0.85, 0.85]], diamond: [[0, -1], [1, 0], [0, 1], [-1, 0]],
    }[sign];
    corners.forEach(([dx, dy], k) => (k ? c.lineTo(x + dx * radius, y + dy * radius) : c.moveTo(x + dx * radius, y + dy * radius)));
    c.closePath();
    if (sign === 'up') {
      c.lineWidth = 1.5;
      c.stroke();
    } else c.fill();
  }
}

/** Whether somebody who looks for trouble wants to jump to events of this kind. */
function isAlarm(kind) {
  return !['delivery', 'pickup', 'help', 'respawn'].includes(kind);
}
