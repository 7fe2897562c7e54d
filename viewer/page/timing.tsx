import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import type { Happening, RolloutDocument } from '../documents.js';
import { useBox } from './hooks.js';
import type { Span } from './lanes.js';
import { lanesOf } from './lanes.js';
import { roundAbove } from './sums.js';
import { Shown } from './text.js';
import { plural, seconds } from './words.js';

/** In pixels: the drawing is as wide as its box, so that its letters are as large as others. */
const LEAST = 280;
const MOST = 960;
const LANE = 18;
const LABEL = 56;
const HEAD = 20;
const FOOT = 18;
/** Marks of the time axis, at most. */
const TICKS = 4;

/** What took the time: a lane for each turn, and one for what went wrong. */
export function Timing({ rollout }: { rollout: RolloutDocument }): JSX.Element {
  const { zero, lanes, seconds: total } = lanesOf(rollout);
  const box = useRef<HTMLDivElement>(null);
  const width = Math.min(MOST, Math.max(LEAST, useBox(box).width));
  const x = (at: number): number => LABEL + (at / Math.max(total, 1e-9)) * (width - LABEL - 12);
  const foot = HEAD + lanes.length * LANE;
  const name = rollout.calls.some(({ life }) => life !== null) ? 'call' : 'turn';
  return (
    <section aria-labelledby="timing-title">
      <h2 id="timing-title">Time</h2>
      <div class="scroll" ref={box} tabIndex={0} role="group" aria-label="waterfall">
        <svg
          class="waterfall"
          width={width}
          height={foot + FOOT}
          role="img"
          aria-label={`${plural(lanes.length, name)} in ${seconds(total)}`}
        >
          {ticksTo(total).map((at) => (
            <g key={at}>
              <path class="tick" d={`M${x(at)} ${HEAD}V${foot + 3}`} />
              <text x={x(at)} y={foot + 14} text-anchor="middle">
                {seconds(at)}
              </text>
            </g>
          ))}
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
              <text x={LABEL - 8} y={LANE - 6} text-anchor="end">
                {name} {number}
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
        {[...new Set(lanes.flatMap(({ spans }) => spans.map(({ kind }) => kind)))].map((kind) => (
          <li key={kind}>
            <span class={`swatch ${kind}`} /> {DOINGS[kind]}
          </li>
        ))}
        {[...new Set(rollout.happenings.map(({ kind }) => kind))].map((kind) => (
          <li key={kind}>
            {SIGNS[kind]} {MEANINGS[kind]}
          </li>
        ))}
        <li>{seconds(total)} from the first attempt on</li>
      </ul>
      <Happenings happenings={rollout.happenings} zero={zero} />
    </section>
  );
}

/** Round times from 0 on. */
function ticksTo(total: number): number[] {
  if (total <= 0) return [0];
  const step = roundAbove(total / TICKS);
  return Array.from({ length: Math.floor(total / step) + 1 }, (_, index) => index * step);
}

/** Heights tell spans apart without colour. */
const BAR: Record<Span['kind'], { y: number; height: number }> = {
  queue: { y: 9, height: 4 },
  generate: { y: 2, height: 14 },
  step: { y: 5, height: 8 },
};

const DOINGS: Record<Span['kind'], string> = {
  queue: 'waits in a queue (low)',
  generate: 'generates (full)',
  step: 'the environment steps (middle)',
};

const SIGNS: Record<Happening['kind'], string> = {
  attempt: '↻',
  fault: '✕',
  over: '†',
  end: '■',
};

const MEANINGS: Record<Happening['kind'], string> = {
  attempt: 'an attempt begins',
  fault: 'a fault',
  over: 'a program’s life is over',
  end: 'the end',
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
          <span class="quiet">after {seconds(one.at - zero)}</span> <Shown text={wordsOf(one)} />
        </li>
      ))}
    </ol>
  );
}

function wordsOf(one: Happening): string {
  switch (one.kind) {
    case 'attempt':
      return `attempt ${one.attempt}, in activity ${one.activity}${one.why === null ? '' : `: ${one.why}`}`;
    case 'fault':
      // Most messages begin with it.
      return `${one.type} in turn ${one.turn}${one.replica === null || one.message.startsWith(one.replica) ? '' : ` on ${one.replica}`}: ${one.message}`;
    case 'over':
      return `life ${one.life} was over`;
    case 'end':
      return `ended: ${one.stop_reason}`;
  }
}
