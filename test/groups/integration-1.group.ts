import { runGroup } from './group';

runGroup('integration', 1, 6);
