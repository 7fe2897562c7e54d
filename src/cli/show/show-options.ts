import { BatchId } from '../../model/batch-request.js';
import type { Selection } from '../../client/show/selection.js';
import { parseWhere } from '../../client/show/conditions.js';
import { SORTS } from '../../client/show/selection.js';
import { UsageError } from '../../platform/command.js';
import {
  FLAG,
  TEXT,
  integerIn,
  oneOf,
  rangeOf,
  optionsAndWordsIn,
} from '../../platform/arguments.js';

/** What `show` should print. */
export interface ShowOptions {
  /** Absent: the default. */
  config: string | undefined;
  batch_id: string;
  /** null: the list. A row without a repeat: its group. */
  place: { row: number; repeat: number | null } | null;
  selection: Selection;
  follow: boolean;
  json: boolean;
  tokens: boolean;
  turns: { first: number; last: number } | null;
  /** One call of an agent, whole. */
  call: number | null;
}

/** Throws an error for the user for an invalid option. */
export function parseShow(args: string[]): ShowOptions {
  const { values, positionals } = optionsAndWordsIn(args, {
    config: TEXT,
    worst: TEXT,
    sort: TEXT,
    reverse: FLAG,
    limit: TEXT,
    failed: FLAG,
    where: { type: 'string', multiple: true, default: [] },
    follow: FLAG,
    json: FLAG,
    tokens: FLAG,
    turns: TEXT,
    call: TEXT,
  });
  const { config, worst, sort, reverse, limit, failed, where, follow, json, tokens } = values;
  if (worst !== undefined) checkAlone({ sort, reverse, limit, failed });
  const by = sort === undefined ? null : oneOf('--sort', { text: sort, among: SORTS });
  const conditions = where.map(parseWhere);
  return {
    config,
    ...targetOf(positionals),
    selection: {
      where: (entry) => conditions.every((holds) => holds(entry)),
      failed,
      worst: worst !== undefined,
      sort:
        worst !== undefined
          ? { by: 'reward', smallest_first: true }
          : by && { by, smallest_first: reverse },
      limit:
        integerIn('--worst', { text: worst, least: 1 }) ??
        integerIn('--limit', { text: limit, least: 1 }) ??
        null,
    },
    follow,
    json,
    tokens,
    turns:
      values.turns === undefined ? null : rangeOf('--turns', { text: values.turns, of: 'turn' }),
    call: integerIn('--call', { text: values.call, least: 0 }) ?? null,
  };
}

/** What `--worst` decides itself. */
function checkAlone(others: Record<string, string | boolean | undefined>): void {
  const other = Object.entries(others).find(([, value]) => value !== undefined && value !== false);
  if (other === undefined) return;
  const means = 'the N lowest rewards, as --sort reward --reverse --limit N lists them';
  throw new UsageError(`--worst N: expected it without --${other[0]}; it means ${means}`);
}

function targetOf(positionals: readonly string[]): Pick<ShowOptions, 'batch_id' | 'place'> {
  const found = positionals.length === 1 ? targetIn(positionals[0] ?? '') : null;
  if (found !== null) return found;
  const got = positionals.join(' ');
  throw new UsageError(
    `expected one BATCH, BATCH/ROW or BATCH/ROW-REPEAT, got ${got === '' ? 'none' : JSON.stringify(got)}`,
  );
}

export function targetIn(text: string): Pick<ShowOptions, 'batch_id' | 'place'> | null {
  const [, batch = '', row, repeat] = /^([^/]+)(?:\/(\d+)(?:-(\d+))?)?$/.exec(text) ?? [];
  if (!BatchId.safeParse(batch).success) return null;
  if (row === undefined) return { batch_id: batch, place: null };
  const place = { row: Number(row), repeat: repeat === undefined ? null : Number(repeat) };
  return { batch_id: batch, place };
}
