import { runGroup } from './group';

runGroup('unit', 1, 1);
