/** Names as MLflow takes them: it refuses a whole batch for one that it does not (upstream's exporter at 07d6b0d). */

const LONGEST = 250;
/** Stands for the middle of a name that is too long: names differ at their ends. */
const ELIDED = '___';

/** null: nothing is left of it. */
export function mlflowName(name: string): string | null {
  const spelled = name.replaceAll('@', '_at_').replaceAll(/[^/\p{L}\p{N}_.\- :]/gu, '_');
  const fitting = asPath(elided(asPath(spelled)));
  return fitting === '' ? null : fitting;
}

/** MLflow takes a name for a relative path: no empty parts, none of dots alone, none that begins with dots. */
function asPath(name: string): string {
  const parts = name.split('/').filter((part) => part !== '');
  const safe = parts.map((part) => (/^\.+$/.test(part) ? '_'.repeat(part.length) : part));
  return safe.join('/').replace(/^\.+/, (dots) => '_'.repeat(dots.length));
}

function elided(name: string): string {
  if (name.length <= LONGEST) return name;
  const kept = LONGEST - ELIDED.length;
  const tail = Math.floor(kept / 2);
  return `${name.slice(0, kept - tail)}${ELIDED}${name.slice(-tail)}`;
}
