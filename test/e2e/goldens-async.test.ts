import { playGoldens } from './goldens/suite.js';

playGoldens('nemo-rl-async');
