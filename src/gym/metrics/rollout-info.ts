import { ROLLOUT_INDEX, TASK_INDEX } from '../keys.js';
import { otherOf } from './describe.js';
import { objectText } from './json-members.js';
import { floatText } from './python-number.js';
import type { RolloutTable, StoredCell } from './rollout-table.js';

/** An entry of `rollout_infos`: the key, the reward as it came, the usage, then the result's other numbers. */
export function rolloutInfo(table: RolloutTable, row: number): string {
  const { task, rollout } = table.keyOf(row);
  const cells = table.cellsOf(row);
  const info: [string, string][] = [
    ['rollout_id', JSON.stringify(`${task}:${rollout}`)],
    [TASK_INDEX, String(task)],
    [ROLLOUT_INDEX, String(rollout)],
  ];
  const nameOf = ({ column }: StoredCell): string => table.names[column] ?? '';
  const reward = cells.find((cell) => !cell.usage && nameOf(cell) === 'reward');
  if (reward !== undefined) info.push(['reward', textOf(reward)]);
  for (const cell of cells) {
    // Here the result's number is shown, in the columns the usage's.
    const shown = otherOf(cells, cell) ?? cell;
    if (cell.usage && cell.value !== null) info.push([nameOf(cell), textOf(shown)]);
  }
  for (const cell of cells) {
    const before = otherOf(cells, cell);
    const isShown = before !== undefined && before.value !== null;
    if (cell.usage || cell === reward || isShown || cell.value === null) continue;
    info.push([nameOf(cell), textOf(cell)]);
  }
  return objectText(info);
}

function textOf({ value, whole, text }: StoredCell): string {
  if (text !== null) return text;
  if (value === null) return 'null';
  return whole ? String(value) : floatText(value);
}
