from treering.frameworks.langgraph import TreeringSaver as TreeringSaver
from treering.frameworks.langgraph import TreeringStore as TreeringStore
