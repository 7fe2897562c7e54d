import { ROLLOUT_INDEX, TASK_INDEX } from '../../keys.js';
import { objectText } from '../../json-members.js';
import { floatJson } from '../../../src/platform/python/numbers.js';
import { SHOWN, USAGE, WHOLE, type RolloutTable } from './rollout-table.js';

/** An entry of `rollout_infos`: the key, the reward as it came, the usage, then the result's other numbers. */
export function rolloutInfo(table: RolloutTable, row: number): string {
  const { task, rollout } = table.keyOf(row);
  const reward: [string, string][] = [];
  const usage: [string, string][] = [];
  const others: [string, string][] = [];
  const end = table.firstCell(row + 1);
  for (let cell = table.firstCell(row); cell < end; cell++) {
    const flags = table.flagsOf(cell);
    if ((flags & SHOWN) === 0) continue;
    const name = table.names[table.columnOf(cell)] ?? '';
    const value = table.valueOf(cell);
    const text = table.textOf(cell) ?? ((flags & WHOLE) === 0 ? floatJson(value) : String(value));
    const isUsage = (flags & USAGE) !== 0;
    (isUsage ? usage : name === 'reward' ? reward : others).push([name, text]);
  }
  return objectText([
    ['rollout_id', `"${task}:${rollout}"`],
    [TASK_INDEX, String(task)],
    [ROLLOUT_INDEX, String(rollout)],
    ...reward,
    ...usage,
    ...others,
  ]);
}
