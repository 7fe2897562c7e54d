import { linesOf } from '../../../src/platform/lines.js';
import type { Members } from '../../../src/platform/json/members.js';
import { createLabels, type Labels } from './labels.js';
import { createLineIndex, type LineIndex } from './line-index.js';
import { cellsOf, type RolloutCells } from './rollout-cells.js';
import { agentOf, BLANK, lineMembers, placeOf, rolloutName, rowKeyOf } from '../../row.js';
import { createRolloutTable, type RolloutTable } from './rollout-table.js';

/** The rows of some files: row n of the table is row n of the index. */
export interface ReadRows {
  table: RolloutTable;
  index: LineIndex;
  /** The requested fields. */
  labels: Labels[];
}

export interface ReadRowsOptions {
  files: readonly string[];
  signal: AbortSignal;
  /** Receives skipped lines, with the reason. */
  report: (line: string) => void;
  /** True if the lines are results: their numbers are kept, and failures are skipped. */
  results: boolean;
  /** Names of the rows to keep; others are skipped. */
  only?: ReadonlySet<string>;
  /** An unusable line is an error, as in upstream. */
  strict?: boolean;
  /** Top-level fields whose values are kept for comparison. */
  label_keys?: readonly string[];
}

/** One line at a time; only its numbers and its position are kept. */
export async function readRows(options: ReadRowsOptions): Promise<ReadRows> {
  const { files, signal, report, strict = false, label_keys = [] } = options;
  const table = createRolloutTable();
  const index = createLineIndex(files);
  const labels = label_keys.map((key) => ({ key, ...createLabels() }));
  const problems = createProblemList('lines were skipped', report);
  for (const [file, name] of files.entries()) {
    for await (const line of linesOf(name)) {
      signal.throwIfAborted();
      const read = readLine(line.text, options);
      if ('problem' in read) {
        const { problem } = read;
        // Upstream's text.
        if (strict && read.malformed)
          throw new Error(`Malformed JSON in '${name}' at line ${line.number}: ${problem}`);
        problems.add(`${name}, line ${line.number} is skipped: ${problem}`);
        continue;
      }
      table.add(read.row);
      for (const label of labels) label.add(read.members.get(label.key));
      const { offset, bytes, number } = line;
      index.add({ file, offset, bytes, number, agent: read.agent });
    }
  }
  problems.end();
  return { table, index, labels };
}

type ReadLine =
  | { row: RolloutCells; agent: string | null; members: Members }
  | { problem: string; malformed: boolean };

function readLine(
  text: string,
  { results, only }: Pick<ReadRowsOptions, 'results' | 'only'>,
): ReadLine {
  const members = lineMembers(text);
  if (typeof members === 'string') return { problem: members, malformed: members !== BLANK };
  const key = rowKeyOf(members);
  if (key === null) {
    const problem = 'expected integers as `_ng_task_index` and `_ng_rollout_index`';
    return { problem, malformed: true };
  }
  if (results && placeOf(members) !== 'main') {
    return { problem: 'it is a failure, which has no reward', malformed: false };
  }
  if (only?.has(rolloutName(key)) === false) {
    const problem = `a result of ${rolloutName(key)}, which is no row of this collection`;
    return { problem, malformed: false };
  }
  const row = results ? cellsOf(members, key) : { key, cells: [] };
  return { row, agent: agentOf(members), members };
}

/** How many problems are reported in full. */
const SAID = 10;

/** A broken file has as many problems as lines: the first ones are reported one by one, then their number. */
export function createProblemList(kind: string, report: (line: string) => void) {
  let count = 0;
  return {
    add: (text: string): void => {
      count += 1;
      if (count <= SAID) report(text);
    },
    end: (): void => {
      if (count > SAID) report(`${count - SAID} more ${kind}`);
    },
  };
}
