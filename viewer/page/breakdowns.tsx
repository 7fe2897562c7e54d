import type { JSX } from 'preact';
import type { Address } from './address.js';
import { hrefOf } from './address.js';
import { goQuietly } from './hooks.js';
import type { Row } from './rows.js';
import { fieldsOf, withCondition } from './rows.js';
import type { Sum } from './sums.js';
import { breakdown } from './sums.js';
import { Shown } from './text.js';
import { decimal, percent, whole } from './words.js';

/** What rollouts are summed by, and the field of the filter that its lines write; null: a line leads to its group. */
const BY: Record<string, string | null> = {
  'stop reason': 'ended',
  task: 'task',
  replica: 'replica',
  version: 'version',
  tool: 'tool',
  fault: 'fault',
  failure: 'failure',
  finish: 'finish',
  step: 'step',
  'part of reward': 'rewards',
  group: null,
};
/** Lines that are drawn. */
const MOST = 200;

/** Sums by task, replica, version and others: what is unlike its neighbours stands out. */
export function Breakdowns({
  run,
  rows,
  options,
}: {
  run: string;
  rows: readonly Row[];
  options: Record<string, string>;
}): JSX.Element {
  const isMany = rows.some(({ facts }) => facts?.replicas[0] !== rows[0]?.facts?.replicas[0]);
  const { by = isMany ? 'replica' : 'stop reason' } = options;
  const sums = breakdown(rows, valuesBy(by));
  return (
    <section class="breakdown" aria-label="sums">
      <h2 id="sums-title">
        <label>
          By{' '}
          <select
            value={by}
            onChange={(event) => {
              goQuietly({ run, options: { ...options, by: event.currentTarget.value } });
            }}
          >
            {Object.keys(BY).map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      </h2>
      {sums.length === 0 ? (
        <p class="quiet">No rollout has any.</p>
      ) : (
        <div class="wide scroll" tabIndex={0} role="group" aria-label={`sums by ${by}`}>
          <table class="list">
            <thead>
              <tr>
                {[
                  by,
                  'Rollouts',
                  'Mean reward',
                  'Mean tokens',
                  'Truncated',
                  'Faults',
                  'Mean logprob',
                ].map((name, index) => (
                  <th key={name} scope="col" class={index === 0 ? '' : 'number'}>
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {sums.slice(0, MOST).map((sum) => (
                <Line
                  key={sum.name}
                  sum={sum}
                  href={hrefOf({ run, ...target(by, { name: sum.name, options }) })}
                />
              ))}
            </tbody>
          </table>
          {sums.length > MOST && (
            <p class="quiet">
              The first {MOST} of {whole(sums.length)}.
            </p>
          )}
        </div>
      )}
    </section>
  );
}

function valuesBy(by: string): (row: Row) => readonly string[] | string | null {
  if (by === 'step') return ({ step }) => (step === null ? null : String(step));
  if (by === 'group') return ({ row }) => String(row);
  if (by === 'part of reward')
    return ({ facts }) =>
      Object.entries(facts?.rewards ?? {})
        .filter(([, value]) => value > 0)
        .map(([name]) => name);
  const field = BY[by] ?? '';
  return fieldsOf([]).texts[field] ?? (() => null);
}

/** The rollouts of a line: a group's page, or one more condition. */
function target(
  by: string,
  { name, options }: { name: string; options: Record<string, string> },
): Partial<Address> {
  const { where = '' } = options;
  const field = BY[by];
  if (field === undefined || field === null) return { row: Number(name), options: { where } };
  const condition =
    field === 'rewards'
      ? { field: `rewards.${name}`, sign: '>', value: 0 }
      : { field, value: field === 'step' ? Number(name) : name };
  return { options: { ...options, where: withCondition(where, condition) } };
}

function Line({ sum, href }: { sum: Sum; href: string }): JSX.Element {
  const { name, count, mean_reward, mean_tokens, truncated, faults, mean_logprob } = sum;
  return (
    <tr>
      <th scope="row">
        <a href={href}>
          <Shown text={name} />
        </a>
      </th>
      <td class="number">{whole(count)}</td>
      <td class="number">
        <Meter share={mean_reward} /> {decimal(mean_reward)}
      </td>
      <td class="number">{whole(mean_tokens)}</td>
      <td class="number">{percent(truncated)}</td>
      <td class="number">{whole(faults)}</td>
      <td class="number">{decimal(mean_logprob)}</td>
    </tr>
  );
}

/** A bar for eyes; the number stands beside it. */
const Meter = ({ share }: { share: number | null }): JSX.Element | null =>
  share === null || share < 0 || share > 1 ? null : (
    <svg class="meter" viewBox="0 0 40 8" aria-hidden="true">
      <rect class="bar" width={40 * share} height="8" />
      <rect class="frame" width="40" height="8" />
    </svg>
  );
