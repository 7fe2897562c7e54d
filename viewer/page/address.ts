/** What the page shows stands behind the `#` of its address, so that each place can be shared, and back goes back. */
export interface Address {
  /** None: the list of all runs. */
  run: string | null;
  row: number | null;
  repeat: number | null;
  /** How it is shown: `where`, `sort`, `turn`, `token`, `with`, … */
  options: Record<string, string>;
}

const RUNS: Address = { run: null, row: null, repeat: null, options: {} };

/** `#/<run>`, `#/<run>/<row>` a group, `#/<run>/<row>-<repeat>` a rollout. null: no such address. */
export function parseAddress(hash: string): Address | null {
  const [path, query = ''] = splitOnce(hash.replace(/^#?\/?/, ''), '?');
  const options = Object.fromEntries(new URLSearchParams(query));
  if (path === '') return { ...RUNS, options };
  const found = /^([^/]+)(?:\/(\d+)(?:-(\d+))?)?$/.exec(path);
  const run = found?.[1] === undefined ? null : decoded(found[1]);
  if (found === null || run === null) return null;
  const [row, repeat] = [found[2], found[3]].map((text) =>
    text === undefined ? null : Number(text),
  );
  return { run, row: row ?? null, repeat: repeat ?? null, options };
}

export function hrefOf({ run, row, repeat, options }: Partial<Address>): string {
  const given = Object.entries(options ?? {}).filter(([, value]) => value !== '');
  const query = new URLSearchParams(given).toString();
  const place = row == null ? '' : `/${row}${repeat == null ? '' : `-${repeat}`}`;
  const path = run == null ? '' : `${encodeURIComponent(run)}${place}`;
  return `#/${path}${query === '' ? '' : `?${query}`}`;
}

/** `<batch>/<row>-<repeat>`, whose batch may hold a slash; null: it is none. */
export function parseRolloutId(id: string): { run: string; row: number; repeat: number } | null {
  const found = /^(.+)\/(\d+)-(\d+)$/s.exec(id);
  if (found === null) return null;
  return { run: found[1] ?? '', row: Number(found[2]), repeat: Number(found[3]) };
}

function splitOnce(text: string, at: string): [string, string?] {
  const index = text.indexOf(at);
  return index === -1 ? [text] : [text.slice(0, index), text.slice(index + 1)];
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
