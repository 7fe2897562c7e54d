import { whyNoJson } from '../../../src/platform/json/fault-place.js';
import { FAILURE_CLASS, NO_PERSIST } from '../../keys.js';
import { linesOf } from '../../../src/platform/lines.js';
import type { FileLine } from '../../../src/platform/lines.js';
import { membersOf, type Members } from '../../../src/platform/json/members.js';
import { createLabels, type Labels } from './labels.js';
import { createLineIndex, type LineIndex } from './line-index.js';
import { createProblemList } from './problem-list.js';
import { agentOf, cellsOf, rowKeyOf, type RolloutCells } from './rollout-cells.js';
import { rolloutName } from '../../row.js';
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
        if (strict && read.malformed) throw new Error(malformed({ name, line, ...read }));
        problems.add(`${name}, line ${line.number} is skipped: ${read.problem}`);
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

interface Malformed {
  name: string;
  line: FileLine;
  problem: string;
}

/** Upstream's text. */
const malformed = ({ name, line, problem }: Malformed): string =>
  `Malformed JSON in '${name}' at line ${line.number}: ${problem}`;

type ReadLine =
  | { row: RolloutCells; agent: string | null; members: Members }
  | { problem: string; malformed: boolean };

function readLine(
  text: string,
  { results, only }: Pick<ReadRowsOptions, 'results' | 'only'>,
): ReadLine {
  if (text.trim() === '') return { problem: 'it is blank', malformed: false };
  let members: Members | null;
  try {
    JSON.parse(text);
    members = membersOf(text);
  } catch (error) {
    return { problem: whyNoJson(text, error), malformed: true };
  }
  if (members === null) return { problem: 'expected an object', malformed: true };
  const key = rowKeyOf(members);
  if (key === null) {
    const problem = 'expected integers as `_ng_task_index` and `_ng_rollout_index`';
    return { problem, malformed: true };
  }
  if (results && isFailure(members)) {
    return { problem: 'it is a failure, which has no reward', malformed: false };
  }
  if (only?.has(rolloutName(key)) === false) {
    const problem = `a result of ${rolloutName(key)}, which is no row of this collection`;
    return { problem, malformed: false };
  }
  const row = results ? cellsOf(members, key) : { key, cells: [] };
  return { row, agent: agentOf(members), members };
}

function isFailure(members: Members): boolean {
  const failure = members.get(FAILURE_CLASS) ?? 'null';
  return failure !== 'null' || members.get(NO_PERSIST) === 'true';
}
