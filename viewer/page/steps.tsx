import type { JSX } from 'preact';
import type { StepEntry } from '../documents.js';
import { Frame, scales } from './charts.js';
import { decimal, plural } from './words.js';

/** Of a stream: the mean reward of each closed step. */
export function Steps({ steps }: { steps: readonly StepEntry[] }): JSX.Element | null {
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
      x={[String(first.step), String(last.step)]}
      y={ends.y.map(decimal) as [string, string]}
    >
      <polyline
        class="line"
        points={points.map((one) => `${x(one.step)},${y(one.reward)}`).join(' ')}
      />
      {points.map((one) => (
        <circle key={one.step} class="dot" cx={x(one.step)} cy={y(one.reward)} r={2.5}>
          <title>
            {`step ${one.step}, version ${one.version ?? 'none'}: mean reward ${decimal(one.reward)} of ${plural(one.completed, 'rollout')}`}
          </title>
        </circle>
      ))}
    </Frame>
  );
}
