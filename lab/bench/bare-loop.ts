import { z } from 'zod';
import { BatchRequest } from '../../src/model/batch-request.js';
import { createBareRollouts } from './bare-rollout.js';
import { serveParent } from './contender-process.js';
import { puzzleSamples } from './samples.js';
import { GENERATION, MAX_SEQ_LEN } from './scenario.js';

/** All rollouts at once in one process. The parent asks for a number of rollouts and gets the number of turns. */

const Question = z.strictObject({ rollouts: z.int() });
const [base_url = '', turns = ''] = process.argv.slice(2);
const loop = createBareRollouts({
  base_url,
  first_token_timeout_ms: 600_000,
  idle_timeout_ms: 120_000,
  request: BatchRequest.parse({
    samples: puzzleSamples(1),
    generation: GENERATION,
    max_seq_len: MAX_SEQ_LEN,
    max_rollout_turns: Number(turns),
  }),
});

serveParent(
  async (question) => {
    const { rollouts } = Question.parse(question);
    const played = await Promise.all(
      puzzleSamples(rollouts).map((sample, row) =>
        loop.play({ sample, row, repeat: 0, request_id: (turn) => `bare/${row}.${turn}` }),
      ),
    );
    return played.reduce((sum, { turns }) => sum + turns, 0);
  },
  () => loop.close(),
);
