import type { JSX } from 'preact';
import type { StepEntry } from '../documents.js';
import { hrefOf } from './address.js';
import { endMarks, Frame, scales } from './charts.js';
import { withCondition } from './rows.js';
import { decimal, plural, tick } from './words.js';

/** Of a stream: the mean reward of each closed step, which leads to its rollouts. */
export function Steps({
  run,
  steps,
  options,
}: {
  run: string;
  steps: readonly StepEntry[];
  options: Record<string, string>;
}): JSX.Element | null {
  const points = steps.flatMap(({ step, version, completed, mean_reward }) =>
    mean_reward === null ? [] : [{ step, version, completed, reward: mean_reward }],
  );
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined) return null;
  const { x, y, ends } = scales(
    points.map(({ step }) => step),
    points.map(({ reward }) => reward),
  );
  return (
    <Frame
      title="Reward over steps"
      summary={`${plural(points.length, 'step')}, last ${decimal(last.reward)}`}
      x={endMarks([`step ${first.step}`, `step ${last.step}`])}
      y={ends.y.map(tick) as [string, string]}
    >
      <polyline
        class="line"
        points={points.map((one) => `${x(one.step)},${y(one.reward)}`).join(' ')}
      />
      {points.map(({ step, version, completed, reward }) => {
        const label = `step ${step}, version ${version ?? 'none'}: mean reward ${decimal(reward)} of ${plural(completed, 'rollout')}`;
        const where = withCondition(options['where'] ?? '', { field: 'step', value: step });
        return (
          <a key={step} href={hrefOf({ run, options: { ...options, where } })} aria-label={label}>
            <circle class="reach" cx={x(step)} cy={y(reward)} r={7} />
            <circle class="dot" cx={x(step)} cy={y(reward)} r={2.5}>
              <title>{label}</title>
            </circle>
          </a>
        );
      })}
    </Frame>
  );
}
