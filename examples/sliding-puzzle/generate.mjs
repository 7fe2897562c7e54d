// Prints sliding-puzzle samples as JSONL. Equal options give equal samples. Needs `npm run build`.
import { parseArgs } from 'node:util';
import { generateSamples } from '../../dist/src/environments/sliding-puzzle/generate-samples.js';

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '16' },
    seed: { type: 'string', default: '244' },
    size: { type: 'string', default: '3' },
    'shuffle-moves': { type: 'string', default: '7' },
    'max-moves': { type: 'string', default: '10' },
  },
});

const samples = generateSamples({
  count: Number(values.count),
  seed: Number(values.seed),
  size: Number(values.size),
  shuffle_moves: Number(values['shuffle-moves']),
  max_moves: Number(values['max-moves']),
});
process.stdout.write(samples.map((sample) => `${JSON.stringify(sample)}\n`).join(''));
