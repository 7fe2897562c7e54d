import type { JSX } from 'preact';
import { hrefOf } from './address.js';
import { largest, Metered } from './meter.js';
import type { Row } from './rows.js';
import { withCondition } from './rows.js';
import { byName, grouped, sumOf } from './sums.js';
import { Shown } from './text.js';
import { plural } from './words.js';

/** A line for each task, a column for each replica: what one replica does worse at one task alone. */
export function Cross({
  run,
  rows,
  options,
}: {
  run: string;
  rows: readonly Row[];
  options: Record<string, string>;
}): JSX.Element {
  const tasks = [...grouped(rows, ({ task_name }) => (task_name === null ? [] : [task_name]))]
    .map(([task, of]) => ({ task, by: grouped(of, ({ facts }) => facts?.replicas ?? []) }))
    .sort((a, b) => byName(a.task, b.task));
  const replicas = [...new Set(tasks.flatMap(({ by }) => [...by.keys()]))].sort(byName);
  const lines = tasks.map(({ task, by }) => ({
    task,
    sums: replicas.map((replica) => sumOf(replica, by.get(replica) ?? [])),
  }));
  const full = largest(lines.flatMap(({ sums }) => sums.map(({ mean_reward }) => mean_reward)));
  const linkOf = (task: string, replica: string): string => {
    const one = withCondition(options['where'] ?? '', { field: 'task', value: task });
    const where = withCondition(one, { field: 'replica', value: replica });
    return hrefOf({ run, options: { ...options, where } });
  };
  return (
    <div class="wide scroll" tabIndex={0} role="group" aria-label="mean reward by task and replica">
      <table class="list">
        <thead>
          <tr>
            {['task: mean reward', ...replicas].map((name, index) => (
              <th key={name} scope="col" class={index === 0 ? '' : 'number'}>
                <Shown text={name} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {lines.map(({ task, sums }) => (
            <tr key={task}>
              <th scope="row">
                <Shown text={task} />
              </th>
              {sums.map(({ name, count, mean_reward }) => (
                <td key={name} class="number">
                  {count > 0 && <a href={linkOf(task, name)}>{plural(count, 'rollout')}</a>}{' '}
                  <Metered value={mean_reward} full={full} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
