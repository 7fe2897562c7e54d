import type { JSX } from 'preact';
import type { Happening, RolloutDocument } from '../documents.js';
import type { Span } from './lanes.js';
import { lanesOf } from './lanes.js';
import { Shown } from './text.js';
import { plural, seconds } from './words.js';

const WIDTH = 600;
const LANE = 14;
const LABEL = 36;
const HEAD = 20;

/** What took the time: a lane for each turn, and one for what went wrong. */
export function Timing({ rollout }: { rollout: RolloutDocument }): JSX.Element {
  const { lanes, seconds: total } = lanesOf(rollout);
  const x = (at: number): number => LABEL + (at / Math.max(total, 1e-9)) * (WIDTH - LABEL - 4);
  const zero = rollout.entry.started_at ?? 0;
  const height = HEAD + lanes.length * LANE + 4;
  return (
    <section aria-labelledby="timing-title">
      <h2 id="timing-title">Time</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="waterfall">
        <svg
          class="waterfall"
          viewBox={`0 0 ${WIDTH} ${height}`}
          role="img"
          aria-label={`${plural(lanes.length, 'turn')} in ${seconds(total)}`}
        >
          {rollout.happenings.map((one, index) => (
            <text
              key={index}
              x={x(one.at - zero)}
              y={12}
              class={`sign ${one.kind}`}
              text-anchor="middle"
            >
              {SIGNS[one.kind]}
              <title>{wordsOf(one)}</title>
            </text>
          ))}
          {lanes.map(({ number, spans }, index) => (
            <g key={number} transform={`translate(0 ${HEAD + index * LANE})`}>
              <text x={LABEL - 6} y={LANE - 4} text-anchor="end">
                {number}
              </text>
              {spans.map((span) => (
                <rect
                  key={span.kind}
                  class={`span ${span.kind}`}
                  x={x(span.from)}
                  width={Math.max(1, x(span.to) - x(span.from))}
                  {...BAR[span.kind]}
                >
                  <title>{`${span.kind} ${seconds(span.to - span.from)}`}</title>
                </rect>
              ))}
            </g>
          ))}
        </svg>
      </div>
      <ul class="legend">
        <li>
          <span class="swatch queue" /> waits in a queue (low)
        </li>
        <li>
          <span class="swatch generate" /> generates (full)
        </li>
        <li>
          <span class="swatch step" /> the environment steps (middle)
        </li>
        <li>{seconds(total)} in all</li>
      </ul>
      <Happenings happenings={rollout.happenings} zero={zero} />
    </section>
  );
}

/** Heights tell spans apart without colour. */
const BAR: Record<Span['kind'], { y: number; height: number }> = {
  queue: { y: 8, height: 3 },
  generate: { y: 1, height: 11 },
  step: { y: 4, height: 6 },
};

const SIGNS: Record<Happening['kind'], string> = {
  attempt: '↻',
  fault: '✕',
  over: '†',
  end: '■',
};

/** In a list: faults, attempts, deaths and the end. */
function Happenings({
  happenings,
  zero,
}: {
  happenings: readonly Happening[];
  zero: number;
}): JSX.Element | null {
  if (happenings.length === 0) return null;
  return (
    <ol class="happenings" aria-label="faults and attempts">
      {happenings.map((one, index) => (
        <li key={index} class={one.kind}>
          <span aria-hidden="true">{SIGNS[one.kind]}</span>{' '}
          <span class="quiet">after {seconds(Math.max(0, one.at - zero))}</span>{' '}
          <Shown text={wordsOf(one)} />
        </li>
      ))}
    </ol>
  );
}

function wordsOf(one: Happening): string {
  switch (one.kind) {
    case 'attempt':
      return `attempt ${one.attempt} of ${one.activity}${one.why === null ? '' : `: ${one.why}`}`;
    case 'fault':
      return `${one.type} in turn ${one.turn}${one.replica === null ? '' : ` on ${one.replica}`}: ${one.message}`;
    case 'over':
      return `life ${one.life} was over`;
    case 'end':
      return `ended: ${one.stop_reason}`;
  }
}
