import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Tokens } from '../documents.js';
import type { Colouring } from './cells.js';
import {
  CELL_HEIGHT,
  CELL_WIDTH,
  COLOURINGS,
  cellOf,
  columnsIn,
  fillOf,
  namesIn,
  runAt,
  tokenAfter,
  tokenAt,
  tokenFacts,
} from './cells.js';
import { useBox } from './hooks.js';
import { Shown } from './text.js';
import { useTheme } from './theme.js';

const SHOWN_ROWS = 8;

/**
 * One cell a token, drawn on a canvas that is as large as what is seen of the strip: 100,000 tokens cost what a screen
 * of them costs. To assistive technology it is a slider over tokens, whose value says what a token is.
 */
export function TokenStrip({
  tokens,
  colouring,
  names,
  at,
  onAt,
}: {
  tokens: Tokens;
  colouring: Colouring;
  /** Of the whole rollout, so that each has one colour in all its turns. */
  names: readonly string[];
  at: number | null;
  onAt: (token: number) => void;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const { top, width, height } = useBox(box);
  const theme = useTheme();
  const [hovered, hover] = useState<number | null>(null);
  const count = tokens.ids.length;
  const columns = columnsIn(width);
  const rows = Math.ceil(count / columns);
  useEffect(() => {
    if (canvas.current !== null)
      draw(canvas.current, { tokens, colouring, names, at: hovered ?? at, top, width, height });
  }, [tokens, colouring, names, hovered, at, top, width, height, theme]);
  const under = ({ offsetX, offsetY }: MouseEvent): number | null =>
    tokenAt({ x: offsetX, y: offsetY + top }, { columns, count });
  const shown = hovered ?? at;
  const spoken = tokenFacts(tokens, at ?? 0);
  return (
    <>
      <div
        class="strip"
        ref={box}
        role="slider"
        tabIndex={0}
        aria-label={`tokens, coloured by ${colouring}`}
        aria-valuemin={1}
        aria-valuemax={count}
        aria-valuenow={(at ?? 0) + 1}
        aria-valuetext={spoken.map(([name, value]) => `${name} ${value}`).join(', ')}
        style={{ height: `${Math.min(rows, SHOWN_ROWS) * CELL_HEIGHT}px` }}
        onKeyDown={(event) => {
          const to = tokenAfter(event.key, { token: at ?? 0, columns, count });
          if (to === null) return;
          event.preventDefault();
          onAt(to);
          const row = Math.floor(to / columns) * CELL_HEIGHT;
          const element = event.currentTarget;
          element.scrollTop = Math.min(
            row,
            Math.max(row + CELL_HEIGHT - element.clientHeight, element.scrollTop),
          );
        }}
      >
        <div class="cells" style={{ height: `${rows * CELL_HEIGHT}px` }}>
          <canvas
            ref={canvas}
            onMouseMove={(event) => {
              hover(under(event));
            }}
            onMouseLeave={() => {
              hover(null);
            }}
            onClick={(event) => {
              const token = under(event);
              if (token !== null) onAt(token);
            }}
          />
        </div>
      </div>
      {shown !== null && shown < count && <Readout tokens={tokens} token={shown} />}
    </>
  );
}

interface Drawing {
  tokens: Tokens;
  colouring: Colouring;
  names: readonly string[];
  at: number | null;
  top: number;
  width: number;
  height: number;
}

function draw(canvas: HTMLCanvasElement, drawing: Drawing): void {
  const { tokens, colouring, names, at, top, width, height } = drawing;
  const scale = devicePixelRatio;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext('2d');
  if (pen === null) return;
  pen.scale(scale, scale);
  pen.translate(0, -top);
  const colours = coloursOf(colouring);
  const ink = colour('--ink');
  const empty = colour('--cell');
  const columns = columnsIn(width);
  const first = Math.floor(top / CELL_HEIGHT) * columns;
  const last = Math.ceil((top + height) / CELL_HEIGHT) * columns;
  const starts = new Set(tokens.requests.map(({ start }) => start));
  for (let token = first; token < Math.min(last, tokens.ids.length); token++) {
    const x = (token % columns) * CELL_WIDTH;
    const y = Math.floor(token / columns) * CELL_HEIGHT;
    const { shade, fill } = cellOf(tokens, { token, colouring, names });
    pen.fillStyle = empty;
    pen.fillRect(x, y, CELL_WIDTH - 1, CELL_HEIGHT - 2);
    pen.fillStyle = colours[shade % colours.length] ?? ink;
    const filled = Math.round((CELL_HEIGHT - 2) * fill);
    pen.fillRect(x, y + CELL_HEIGHT - 2 - filled, CELL_WIDTH - 1, filled);
    if (token > 0 && starts.has(token)) {
      pen.fillStyle = ink;
      pen.fillRect(x - 1, y - 1, 3, CELL_HEIGHT);
    }
    if (token === at) {
      pen.strokeStyle = ink;
      pen.lineWidth = 2;
      pen.strokeRect(x, y, CELL_WIDTH - 1, CELL_HEIGHT - 2);
    }
  }
}

const colour = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name);

/** By lightness for numbers, of a palette that colour-blind readers tell apart for names. */
const coloursOf = (colouring: Colouring): string[] =>
  (colouring === 'logprob'
    ? ['--scale-0', '--scale-1', '--scale-2', '--scale-3', '--scale-4']
    : ['--kind-0', '--kind-1', '--kind-2', '--kind-3', '--kind-4', '--kind-5', '--kind-6']
  ).map(colour);

function Readout({ tokens, token }: { tokens: Tokens; token: number }): JSX.Element {
  const piece = tokens.pieces[runAt(tokens.pieces, token)];
  const top = tokens.top[token] ?? [];
  return (
    <dl class="readout">
      {tokenFacts(tokens, token).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <Shown text={value} />
          </dd>
        </div>
      ))}
      {piece !== undefined && (
        <div>
          <dt>text of its chunk</dt>
          <dd>
            <code>
              <Shown text={JSON.stringify(piece.text)} />
            </code>
          </dd>
        </div>
      )}
      {top.length > 0 && (
        <div>
          <dt>likeliest ids: probability</dt>
          <dd>
            {top.map(([id, logprob]) => (
              <span key={id} class={id === tokens.ids[token] ? 'part chosen' : 'part'}>
                {id === tokens.ids[token] && '✓ '}
                {id}: {Math.exp(logprob).toFixed(3)}
              </span>
            ))}
          </dd>
        </div>
      )}
    </dl>
  );
}

/** What the colours say, in words. */
export function StripLegend({
  tokens,
  colouring,
  names,
}: {
  tokens: Tokens;
  colouring: Colouring;
  names: readonly string[];
}): JSX.Element {
  const here = namesIn([tokens], colouring);
  const shades: [string, number][] =
    colouring === 'logprob'
      ? [
          ['likely', 0],
          ['unlikely (a full cell: logprob −6 or less)', 4],
        ]
      : colouring === 'trained'
        ? [
            ['trained on (full)', 0],
            ['not trained on', 1],
          ]
        : here.map((name) => [name, names.indexOf(name)]);
  return (
    <ul class="legend">
      {shades.slice(0, 12).map(([name, shade]) => (
        <li key={name}>
          <span
            class={`swatch ${colouring === 'logprob' ? 'scale' : 'kind'}-${shade % 7}`}
            style={{ height: `${0.8 * (colouring === 'logprob' ? 1 : fillOf(shade))}rem` }}
          />{' '}
          <Shown text={name} />
        </li>
      ))}
      {shades.length > 12 && <li>and {shades.length - 12} more</li>}
      {tokens.requests.length > 1 && <li>a thick line is a seam</li>}
    </ul>
  );
}

export const isColouring = (name: string | undefined): name is Colouring =>
  COLOURINGS.some((one) => one === name);
